package rl

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/pkg/elementary"
)

// PreferenceLoss names a loss of pairs of completions, of which one is preferred, under TRL's
// names. The formulas are in preference_loss.go, with their papers. To add one: a name, a row in
// preferenceTable, and a case in terms.
type PreferenceLoss string

const (
	DPOSigmoid     PreferenceLoss = "sigmoid"      // DPO
	DPOHinge       PreferenceLoss = "hinge"        // SLiC
	DPOIPO         PreferenceLoss = "ipo"          // IPO
	DPOSigmoidNorm PreferenceLoss = "sigmoid_norm" // DPO with a mean over tokens (Tulu 3)
	DPOExo         PreferenceLoss = "exo_pair"     // EXO
	DPONCA         PreferenceLoss = "nca_pair"     // NCA
	DPORobust      PreferenceLoss = "robust"       // robust DPO
	DPOBCO         PreferenceLoss = "bco_pair"     // BCO
	DPOSPPO        PreferenceLoss = "sppo_hard"    // SPPO with hard labels
	DPOAOT         PreferenceLoss = "aot"          // AOT of paired data
	DPOAOTUnpaired PreferenceLoss = "aot_unpaired" // AOT of unpaired data
	DPOAPOZero     PreferenceLoss = "apo_zero"     // APO-zero
	DPOAPODown     PreferenceLoss = "apo_down"     // APO-down
	DPODiscoPOP    PreferenceLoss = "discopop"     // DiscoPOP
	DPOSFT         PreferenceLoss = "sft"          // negative log-likelihood of the chosen tokens
)

// preferenceUses is a set of properties of a loss.
type preferenceUses uint

const (
	usesSmoothing  preferenceUses = 1 << iota // LabelSmoothing
	usesDivergence                            // Divergence: the loss compares scores of the two completions
	usesTau                                   // DiscoPOPTau
	usesReference                             // the log-ratios to the reference, and so Beta and LDAlpha
	usesBatch                                 // the loss of a pair depends on all pairs of the update
	usesLengths                               // the numbers of tokens divide the log-ratios
)

var preferenceTable = optionTable[PreferenceLoss, preferenceUses]{
	{DPOSigmoid, usesReference | usesDivergence},
	{DPOHinge, usesReference | usesDivergence},
	{DPOIPO, usesReference | usesDivergence | usesLengths},
	{DPOSigmoidNorm, usesReference | usesDivergence | usesLengths},
	{DPOExo, usesReference | usesDivergence | usesSmoothing},
	{DPONCA, usesReference},
	{DPORobust, usesReference | usesDivergence | usesSmoothing},
	{DPOBCO, usesReference},
	{DPOSPPO, usesReference},
	{DPOAOT, usesReference | usesSmoothing | usesBatch},
	{DPOAOTUnpaired, usesReference | usesSmoothing | usesBatch},
	{DPOAPOZero, usesReference},
	{DPOAPODown, usesReference},
	{DPODiscoPOP, usesReference | usesDivergence | usesTau},
	{DPOSFT, 0},
}

// PreferenceLosses lists the known losses of pairs.
func PreferenceLosses() []string { return preferenceTable.with(0) }

// PreferenceConfig selects the loss of pairs. The names in comments are those of TRL's DPOConfig.
type PreferenceConfig struct {
	Losses  []PreferenceLoss // loss_type: their weighted sum
	Weights []float64        // loss_weights: one for each loss; nil = all 1
	Beta    float64          // beta, above 0: TRL's default is 0.1
	// LabelSmoothing is the probability that a label is wrong, 0 <= label_smoothing < 0.5. As in
	// TRL, only robust, exo_pair (which needs it), aot and aot_unpaired use it.
	LabelSmoothing float64
	Divergence     string  // f_divergence_type, one of [Divergences]; "" = reverse_kl
	AlphaCoef      float64 // f_alpha_divergence_coef, for alpha_divergence only
	// LDAlpha (ld_alpha, 0..1) weighs the tokens of the longer completion beyond the length of the
	// shorter one, in policy and reference (LD-DPO, arXiv:2409.06411); 1 = off.
	LDAlpha float64
	// Weighting (use_weighting) multiplies the loss of a pair by the policy's own probability of its
	// two completions, without a gradient (WPO, arXiv:2406.11827).
	Weighting   bool
	DiscoPOPTau float64 // discopop_tau; 0 = 0.05
}

// usedByAny reports whether one of the losses has a property.
func (c PreferenceConfig) usedByAny(u preferenceUses) bool {
	return slices.ContainsFunc(c.Losses, func(l PreferenceLoss) bool {
		uses, _ := preferenceTable.of(l)
		return uses&u == u
	})
}

// NeedsBatch reports whether the loss of a pair depends on all pairs of the update (aot,
// aot_unpaired), so that it cannot be computed in micro-batches.
func (c PreferenceConfig) NeedsBatch() bool { return c.usedByAny(usesBatch) }

// UnusedOption is an option that is set and has no effect.
type UnusedOption struct {
	Name   string   // TRL's name
	UsedBy []string // the losses or the divergence that use it
}

// Unused lists the options that are set and that none of the losses uses. TRL ignores them silently.
func (c PreferenceConfig) Unused() []UnusedOption {
	var out []UnusedOption
	add := func(name string, set bool, u preferenceUses) {
		if set && !c.usedByAny(u) {
			out = append(out, UnusedOption{name, preferenceTable.with(u)})
		}
	}
	add("label_smoothing", c.LabelSmoothing != 0, usesSmoothing)
	add("f_divergence_type", c.divergence() != ReverseKL, usesDivergence)
	add("ld_alpha", c.LDAlpha != 1, usesReference)
	add("discopop_tau", c.DiscoPOPTau != 0, usesTau)
	return out
}

// Check returns an error for an invalid configuration. It refuses what TRL refuses: exo_pair
// without label smoothing, another divergence than reverse_kl for a loss that compares no scores,
// weighting with aot and aot_unpaired; also weighting with sft, with which TRL fails.
func (c PreferenceConfig) Check() error {
	if len(c.Losses) == 0 {
		return fmt.Errorf("no loss_type (known: %s)", strings.Join(PreferenceLosses(), ", "))
	}
	for _, l := range c.Losses {
		if _, ok := preferenceTable.of(l); !ok {
			return unknown("loss_type", string(l), PreferenceLosses())
		}
	}
	if c.Weights != nil && len(c.Weights) != len(c.Losses) {
		return fmt.Errorf("%d loss_weights for %d losses (give one weight for each loss_type)",
			len(c.Weights), len(c.Losses))
	}
	for i, w := range c.Weights {
		if !positive(w) {
			return fmt.Errorf("the loss_weight of %s is %v; it must be finite and above 0", c.Losses[i], w)
		}
	}
	if !positive(c.Beta) {
		return fmt.Errorf("beta is %v; it must be finite and above 0", c.Beta)
	}
	if !(c.LabelSmoothing >= 0 && c.LabelSmoothing < 0.5) {
		return fmt.Errorf("label_smoothing is %v; it is the probability of a wrong label, at least 0 and below 0.5",
			c.LabelSmoothing)
	}
	if !(c.LDAlpha >= 0 && c.LDAlpha <= 1) {
		return fmt.Errorf("ld_alpha is %v; it must be from 0 to 1 (1 = off)", c.LDAlpha)
	}
	if c.DiscoPOPTau != 0 && !positive(c.DiscoPOPTau) {
		return fmt.Errorf("discopop_tau is %v; it must be finite and above 0", c.DiscoPOPTau)
	}
	if err := c.checkDivergence(); err != nil {
		return err
	}
	for _, l := range c.Losses {
		switch {
		case l == DPOExo && c.LabelSmoothing == 0:
			return fmt.Errorf("%s needs label_smoothing above 0, because its loss has the logarithm of it "+
				"(the EXO paper recommends 1e-3)", l)
		case c.Weighting && (l == DPOAOT || l == DPOAOTUnpaired):
			return fmt.Errorf("use_weighting does not work with %s, which sorts the pairs, so that no weight of a "+
				"pair fits", l)
		case c.Weighting && l == DPOSFT:
			return fmt.Errorf("use_weighting does not work with %s, whose loss is of tokens and not of pairs", l)
		}
	}
	return nil
}

// Names of f-divergences of the policy from the reference (TRL f_divergence_type).
const (
	ReverseKL       = "reverse_kl"
	ForwardKL       = "forward_kl"
	JSDivergence    = "js_divergence"
	AlphaDivergence = "alpha_divergence"
)

// Divergences lists the known f-divergences, the default first.
func Divergences() []string {
	return []string{ReverseKL, ForwardKL, JSDivergence, AlphaDivergence}
}

func (c PreferenceConfig) divergence() string { return cmp.Or(c.Divergence, ReverseKL) }

func (c PreferenceConfig) checkDivergence() error {
	name := c.divergence()
	if err := checkName("f_divergence_type", name, Divergences()); err != nil {
		return err
	}
	if name == AlphaDivergence && (math.IsNaN(c.AlphaCoef) || math.IsInf(c.AlphaCoef, 0)) {
		return fmt.Errorf("f_alpha_divergence_coef is %v; it must be finite", c.AlphaCoef)
	}
	if name == ReverseKL {
		return nil
	}
	allowed := append(preferenceTable.with(usesDivergence), string(DPOSFT))
	for _, l := range c.Losses {
		if !slices.Contains(allowed, string(l)) {
			return fmt.Errorf("f_divergence_type %s is not defined for %s, which is no function of the difference of "+
				"two scores (use %s, or one of the losses %s)", name, l, ReverseKL, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// maxExponent is TRL's bound of the exponent of alpha_divergence in float32.
const maxExponent = 80

// score is the derivative f' of an f-divergence at the ratio exp(x) of policy to reference, up to a
// constant, and its derivative by x:
//
//	reverse_kl        x
//	forward_kl        1 - exp(-x)
//	js_divergence     log 2 + ls(x)
//	alpha_divergence  (exp(min((a-1) x, 80)) - 1) / (a-1), and x for a = 1
//
// f-DPO, arXiv:2309.16240.
func (c PreferenceConfig) score(x float64) (value, slope float64) {
	switch c.divergence() {
	case ForwardKL:
		return -elementary.Expm1(-x), elementary.Exp(-x)
	case JSDivergence:
		return math.Ln2 + logSigmoid(x), sigmoid(-x)
	case AlphaDivergence:
		a := c.AlphaCoef - 1
		if a == 0 {
			break
		}
		if a*x > maxExponent {
			return elementary.Expm1(maxExponent) / a, 0
		}
		return elementary.Expm1(a*x) / a, elementary.Exp(a * x)
	}
	return x, 1
}
