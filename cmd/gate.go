package cmd

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep/launch"
)

// gateFlags turn results into the exit code 1, for CI. They are checked after everything is written.
type gateFlags struct {
	report.Gate
	baseline string // file
	drop     bool   // --max-drop was given
}

func (g *gateFlags) add(fs *pflag.FlagSet) {
	const usage = "exit with 1 if the final validation reward (of an arm: the mean over its seeds) is below this " +
		"`reward`, 0 to 1"
	fs.Func("fail-below", usage, func(text string) error {
		v, err := within(text, 1)
		if err != nil {
			return errors.New("want a reward of 0 to 1")
		}
		g.Below = &v
		return nil
	})
	fs.BoolVar(&g.Diverged, "fail-on-diverged", false, "exit with 1 if a run diverged")
	fs.StringVar(&g.baseline, "baseline", "",
		"exit with 1 if the final validation reward is below that in this `file`, an earlier result.json or results.json")
	const drop = "the `points` of 0 to 100 by which it may be below the --baseline (default 0)"
	fs.Func("max-drop", drop, func(text string) (err error) {
		if g.MaxDrop, err = within(text, 100); err != nil {
			return errors.New("want points of 0 to 100")
		}
		g.drop = true
		return nil
	})
}

var weightsHash = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// addWeights adds the flag for commands about one run.
func (g *gateFlags) addWeights(fs *pflag.FlagSet) {
	const usage = "exit with 1 if the SHA-256 of the final weights does not begin with this `hash`, 8 to 64 hex digits"
	fs.Func("expect-weights", usage, func(text string) error {
		if g.Weights = strings.ToLower(text); !weightsHash.MatchString(g.Weights) {
			return errors.New("want 8 to 64 hex digits, as weights_sha256 in result.json")
		}
		return nil
	})
}

// within reads a number of 0 to most.
func within(text string, most float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		return 0, errors.New("out of range")
	}
	return v, nil
}

// load reads the baseline, before anything is trained.
func (g *gateFlags) load(kind rundir.Kind) (err error) {
	switch {
	case g.baseline != "":
		g.Baseline, err = report.ReadBaseline(g.baseline, kind)
	case g.drop:
		err = fmt.Errorf("%w: --max-drop compares with an earlier result: add --baseline FILE", config.ErrConfig)
	}
	return err
}

// checkGate loads the baseline, and refuses the flags for a command that ends before there are results.
func (f *sweepFlags) checkGate(k launch.Kind, prepare bool, kind rundir.Kind) error {
	how := ""
	switch {
	case f.gate.Below == nil && !f.gate.Diverged && f.gate.baseline == "":
	case f.dryRun:
		how = "leave out --dry-run"
	case prepare, k.Stays == launch.Never:
		how = "give them to grpo report"
	case k.Stays == launch.WithWait && !f.launcher.wait:
		how = "add --wait, or give them to grpo report"
	}
	if how == "" {
		return f.gate.load(kind)
	}
	return fmt.Errorf("%w: --fail-below, --fail-on-diverged and --baseline check results, which this command ends "+
		"without: %s", config.ErrConfig, how)
}
