package cmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// sideFlags select what a command's folders are tested against, and how.
type sideFlags struct {
	against         []string
	arm, againstArm string
	margin          float64 // a share; 0 = report.margin
}

func (f *sideFlags) add(c *cobra.Command, against string) {
	fs := c.Flags()
	fs.StringArrayVar(&f.against, "against", nil, against)
	fs.StringVar(&f.arm, "arm", "", "`name` of the arm to test, if the sweep has several")
	fs.StringVar(&f.againstArm, "against-arm", "", "`name` of the arm in the sweep of --against")
	const margin = "difference in `points` that does not matter (default report.margin, 2 points)"
	fs.Func("margin", margin, func(text string) error {
		points, err := strconv.ParseFloat(text, 64)
		if err != nil || !(points >= 0.1 && points < 100) {
			return errors.New("want points of 0.1 to 100: 2 is two percentage points of the reward")
		}
		f.margin = points / 100
		return nil
	})
	completeWith(c, "arm", completeArms)
	complete(c, "against-arm", func() []string { return armNames(f.against) }, cobra.ShellCompDirectiveNoFileComp)
	completeWith(c, "against", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
}

// completeArms lists the arms of the sweep that is the argument.
func completeArms(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return armNames(args), cobra.ShellCompDirectiveNoFileComp
}

// armNames are the arms of a sweep for the shell; none of other folders.
func armNames(dirs []string) (names []string) {
	if dirs = analysis.Distinct(dirs); len(dirs) != 1 { // cobra parses flags twice
		return nil
	}
	m, _ := sweepdir.ReadManifest(dirs[0]) // no arms if it can't be read
	for _, arm := range m.Arms {
		names = append(names, textutil.Printable(arm.Name, 0))
	}
	return names
}

// open reads both sides.
func (f *sideFlags) open(dirs []string) (a, b analysis.Side, err error) {
	if a, err = report.OpenSide(dirs, f.arm, "--arm"); err == nil {
		b, err = report.OpenSide(f.against, f.againstArm, "--against-arm")
	}
	return a, b, err
}

// changed is the first of these flags that the command line has; empty if it has none.
func changed(c *cobra.Command, names ...string) (name string) {
	for _, n := range names {
		if name == "" && c.Flags().Changed(n) {
			name = n
		}
	}
	return name
}

// runVersus is grpo compare --against.
func runVersus(_ context.Context, s *State, o *compareOptions) error {
	a, b, err := o.sides.open(o.dirs)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	t, err := report.NewTest(a, b, o.sides.margin)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	if o.json {
		return printJSON(s.Out, t)
	}
	return t.Write(s.Out)
}

// testTwo prints the test of two folders, each with several seeds of one configuration; it prints
// nothing about others.
func testTwo(s *State, dirs []string) error {
	dirs = analysis.Distinct(dirs)
	if len(dirs) != 2 {
		return nil
	}
	var sides [2]analysis.Side
	for i, dir := range dirs {
		side, err := report.OpenSide([]string{dir}, "", "--arm")
		if err != nil || len(side.Runs) < 2 {
			return nil
		}
		sides[i] = side
	}
	t, err := report.NewTest(sides[0], sides[1], 0)
	switch {
	case errors.Is(err, analysis.ErrFewPairs):
		_, err = textutil.Fprintf(s.Out, "\nNot tested: %s\n", err)
		return err
	case err != nil:
		return fmt.Errorf("compare: %w", err)
	}
	if _, err := fmt.Fprintln(s.Out); err != nil {
		return err
	}
	return t.WriteLines(s.Out)
}

// gateOptions are the inputs of `grpo gate`.
type gateOptions struct {
	dirs        []string
	sides       sideFlags
	nonInferior bool
}

// gateError is an answer other than keep, or an error of grpo gate. No error has the exit code of an
// answer, so that a script never takes one for a result.
type gateError struct {
	code int
	err  error
}

func (e *gateError) Error() string { return e.err.Error() }
func (e *gateError) Unwrap() error { return e.err }

func newGate(s *State) *cobra.Command {
	o := &gateOptions{}
	c := &cobra.Command{
		Use:   "gate CANDIDATE --against INCUMBENT",
		Short: "Decide whether a candidate replaces the incumbent: keep, discard or undecided",
		Long: `Gate tests the runs of a candidate against those of the incumbent, as "grpo compare
--against" does, and prints its answer and the reason as JSON ("grpo schema gate"). It is
for scripts that try many changes, of which some look better by chance.

  keep       exit code 0   the candidate is better
  discard    exit code 1   it is not better by --margin, or worse, or a run diverged
  undecided  exit code 3   neither can be said
  error      exit code 2

Every comparison with an incumbent is a try, and gate.jsonl in the incumbent's folder
counts them (for runs outside of sweeps: in that of the lowest seed). The level of the k-th try
is 5% of 10/((k+9)(k+10)), and all of them add up to 5%: this is the probability that any
candidate without a true gain is ever kept. The same runs asked about again are the same
try; more seeds are another. A candidate that was kept is the next incumbent and has its
own count. A discard errs in 5% of the candidates that are better by the margin.

With --non-inferior, keep means that a loss as large as the margin is excluded, and
discard that the candidate is worse: for changes that are welcome without a gain.

docs/automation.md has a loop that uses it.`,
		Example: `  grpo gate results/candidate --against results/incumbent
  grpo gate results/candidate --against results/incumbent --margin 1
  grpo gate results/ablate-5e6f7a8b --arm dapo --against results/ablate-5e6f7a8b --against-arm grpo
  grpo gate new/seed=* --against old/seed=1 --against old/seed=2 --against old/seed=3
  grpo gate results/faster --against results/incumbent --non-inferior`,
		Args: takes("the candidate: the folder of one sweep, or the folders of its runs", 1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.dirs = args; len(o.sides.against) == 0 {
				return usagef(cmd, "give the incumbent with --against")
			}
			return run(cmd, s, o, runGate)
		},
	}
	o.sides.add(c, "`folder` of the incumbent: of a sweep, or of a run (repeat for each run)")
	c.Flags().BoolVar(&o.nonInferior, "non-inferior", false,
		"keep what is not worse by the margin; discard what is worse")
	return c
}

// Gate waits so long for another process that writes to the incumbent's folder, mostly another gate.
const gateWaits, gateLooks = time.Minute, 50 * time.Millisecond

func runGate(ctx context.Context, s *State, o *gateOptions) error {
	t, err := decide(ctx, o)
	if err == nil {
		err = printJSON(s.Out, t)
	}
	switch {
	case errors.Is(err, errStopped):
		return err
	case err != nil:
		return &gateError{exitUsage, fmt.Errorf("gate: %w", err)}
	case t.Answer == report.Keep:
		textutil.Fprintf(s.Err, "grpo: keep: %s\n", t.Reason)
		return nil
	}
	answer := fmt.Errorf("%s: %s", t.Answer, t.Reason)
	if t.Answer == report.Discard {
		return &gateError{exitFailed, answer}
	}
	return &gateError{exitUndecided, answer}
}

func decide(ctx context.Context, o *gateOptions) (*report.Trial, error) {
	a, b, err := o.sides.open(o.dirs)
	if err != nil {
		return nil, err
	}
	for range int(math.Ceil(gateWaits.Seconds() / gateLooks.Seconds())) {
		t, err := report.Decide(a, b, o.sides.margin, o.nonInferior)
		if locked := (*rundir.LockedError)(nil); !errors.As(err, &locked) {
			return t, err
		}
		select {
		case <-ctx.Done():
			return nil, errStopped
		case <-time.After(gateLooks):
		}
	}
	return report.Decide(a, b, o.sides.margin, o.nonInferior)
}
