package cmd

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
)

// gateFlags turn results into the exit code 1, for CI. They are checked after everything is written.
type gateFlags struct {
	below    *float64 // the lowest final mean validation reward; nil = any
	diverged bool
}

func (g *gateFlags) add(fs *pflag.FlagSet) {
	const usage = "exit with 1 if the final validation reward (of an arm: the mean over its seeds) is below this `reward`, 0 to 1"
	fs.Func("fail-below", usage, func(text string) error {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= 1) {
			return errors.New("want a reward of 0 to 1")
		}
		g.below = &v
		return nil
	})
	fs.BoolVar(&g.diverged, "fail-on-diverged", false, "exit with 1 if a run diverged")
}

func (g *gateFlags) isSet() bool { return g.below != nil || g.diverged }

// checkRun checks a finished run; name is empty for the only one.
func (g *gateFlags) checkRun(name string, r *rundir.Result) error {
	if !g.isSet() {
		return nil
	}
	if name != "" {
		name += ": "
	}
	if r == nil {
		return fmt.Errorf("%sit has no result to check", name)
	}
	var errs []error
	final := r.Final.Sampled.AnswerReward
	if g.below != nil && !(final >= *g.below) {
		errs = append(errs, fmt.Errorf("--fail-below %g: %sthe final validation reward is %.3f", *g.below, name, final))
	}
	if g.diverged && r.Status == rundir.StateDiverged {
		at := ""
		if r.DivergedAt != nil {
			at = fmt.Sprintf(" at step %d", *r.DivergedAt)
		}
		errs = append(errs, fmt.Errorf("--fail-on-diverged: %sthe run diverged%s (%s)", name, at, r.DivergedReason))
	}
	return errors.Join(errs...)
}

// checkSweep checks every arm of a sweep but the controls, which are expected to fail. A run without a
// result fails both checks. part is its place in a study, or empty.
func (g *gateFlags) checkSweep(part string, a *report.Report) error {
	if !g.isSet() {
		return nil
	}
	if a == nil {
		return fmt.Errorf("part %s has no results to check", part)
	}
	if part != "" {
		part = "part " + part + ", "
	}
	var errs []error
	for i := range a.Arms {
		r := &a.Arms[i]
		if r.Arm.Control {
			continue
		}
		name := part + textutil.Printable(r.Name(), 0)
		if n := r.Failed + r.Left; n > 0 {
			errs = append(errs, fmt.Errorf("%s: %d of %s have no result to check", name, n,
				textutil.Count(len(r.Runs), "run")))
		}
		final := r.Of(analysis.FinalMetric)
		if g.below != nil && final.N > 0 && !(final.Mean >= *g.below) {
			errs = append(errs, fmt.Errorf("--fail-below %g: %s: the final validation reward is %.3f (mean of %s)",
				*g.below, name, final.Mean, textutil.Count(final.N, "seed")))
		}
		if g.diverged && r.Diverged > 0 {
			at := analysis.StepRange(r.DivergedSteps())
			if at != "" {
				at = ", " + at
			}
			errs = append(errs, fmt.Errorf("--fail-on-diverged: %s: %d of %s diverged%s", name, r.Diverged,
				textutil.Count(len(r.Runs), "run"), at))
		}
	}
	return errors.Join(errs...)
}

// checkStudy checks every part of a study.
func (g *gateFlags) checkStudy(r *report.StudyReport) error {
	var errs []error
	for i, part := range r.Study.Parts {
		errs = append(errs, g.checkSweep(part.Name, r.Parts[i]))
	}
	return errors.Join(errs...)
}

// checkGate refuses the flags for a command that ends before there are results.
func (f *sweepFlags) checkGate(l config.Launcher, prepare bool) error {
	how := ""
	switch {
	case !f.gate.isSet():
	case f.dryRun:
		how = "leave out --dry-run"
	case prepare, l.Type == "kubernetes":
		how = "give them to grpo report"
	case l.Type == "slurm" && !f.launcher.wait:
		how = "add --wait, or give them to grpo report"
	}
	if how == "" {
		return nil
	}
	return fmt.Errorf("%w: --fail-below and --fail-on-diverged check results, which this command ends without: %s",
		config.ErrConfig, how)
}
