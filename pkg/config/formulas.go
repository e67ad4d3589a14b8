package config

import (
	"cmp"

	"grpo/pkg/formula"
)

// lossFormula compiles loss_expr; nil without one.
func (a *Algorithm) lossFormula() (*formula.Loss, error) {
	if a.LossExpr == "" {
		return nil, nil
	}
	return formula.ParseLoss(a.LossExpr, a.Cliprange, cmp.Or(a.EpsilonHigh, a.Cliprange))
}

// lossNames reports whether loss_expr names a variable.
func (a *Algorithm) lossNames(variable string) bool {
	l, err := a.lossFormula()
	return err == nil && l != nil && l.Names(variable)
}

// AdvantageFormula compiles advantage_expr; nil without one.
func (a Algorithm) AdvantageFormula() (*formula.Advantage, error) {
	if a.AdvantageExpr == "" {
		return nil, nil
	}
	return formula.ParseAdvantage(a.AdvantageExpr)
}

// CheckGradient compares the gradient of loss_expr with finite differences: see [formula.Loss.CheckGradient].
func (a Algorithm) CheckGradient() error {
	l, err := a.lossFormula()
	if err != nil || l == nil {
		return err
	}
	return l.CheckGradient()
}

// NeedsReference reports whether a run of grpo or ppo keeps a reference policy.
func (a Algorithm) NeedsReference() bool { return a.Beta != 0 || a.lossNames("ref") }

// formulaUses reports whether loss_expr uses an option of the built-in losses, by its name in the family loss.X.
func (a *Algorithm) formulaUses(option string) bool {
	switch option {
	case "epsilon":
		return a.lossNames("eps") || a.EpsilonHigh == 0 && a.lossNames("eps_high")
	case "epsilon_high":
		return a.lossNames("eps_high")
	case "level":
		return a.lossNames("ratio")
	}
	return false
}

// validateFormulas checks that loss_expr and advantage_expr can be compiled.
func (a *Algorithm) validateFormulas(v *validator) {
	if _, err := a.lossFormula(); err != nil {
		v.reject("%s can't be used as a loss: %s", &a.LossExpr, err)
	}
	if _, err := a.AdvantageFormula(); err != nil {
		v.reject("%s can't be used as advantages: %s", &a.AdvantageExpr, err)
	}
}
