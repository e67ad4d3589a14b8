package cmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/textutil"
	"grpo/pkg/plots"
	"grpo/pkg/report"
)

func newExplain(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain",
		Short: "Work through the math on small examples or on your own numbers",
		Long: `Explain computes small worked examples with the functions that training uses:
length normalization, advantages, clipping, aggregation, overlong filtering, a whole
loss step by step, and the losses of preference pairs and of reward models. Flags
change the numbers. It writes no files, except that advantages, clip, aggregation and
dpo plot a figure with --out.

--batch computes losses and gradients, advantages or rewards of your own file.
"logprobs" prints the log-probability of each token of a completion.`,
		Example: `  grpo explain lengthnorm
  grpo explain advantages --group 1,1,0,0 --group 1,0,0,0
  grpo explain clip --old-logp -3.9 --logp -2.3
  grpo explain walkthrough --rewards 1,0,0.5
  grpo explain dpo --beta 0.5 --loss-type ipo
  grpo explain loss --batch my-cases.json --json`,
	}
	c.AddCommand(newExplainLengthNorm(s), newExplainAdvantages(s), newExplainClip(s),
		newExplainAggregation(s), newExplainOverlong(s), newExplainWalkthrough(s),
		newExplainDPO(s), newExplainRewardModel(s), newExplainLoss(s), newExplainReward(s), newExplainLogProbs(s))
	return c
}

// explainOptions are the inputs of a worked example.
type explainOptions[N any] struct {
	numbers N
	json    bool
	out     string // folder or PNG file of the figure; empty: none
}

// explained is the result of a worked example.
type explained interface{ WriteText(io.Writer) error }

// worked gives c the flags and the function of a worked example with these
// numbers by default. Numbers that compute refuses are usage errors.
func worked[N any, R explained](
	s *State, c *cobra.Command, numbers N, compute func(N) (R, error),
) *explainOptions[N] {
	o := &explainOptions[N]{numbers: numbers}
	addJSON(c, &o.json)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return run(cmd, s, o, func(_ context.Context, s *State, o *explainOptions[N]) error {
			r, err := compute(o.numbers)
			if err != nil {
				return &usageError{cmd, err}
			}
			if err := showExplained(s, o.json, r); err != nil || o.out == "" {
				return err
			}
			figure, err := any(r).(drawable).Figure()
			if err != nil {
				return &usageError{cmd, err}
			}
			return drawExplained(s, o.out, cmd.Name()+".png", figure)
		})
	}
	return o
}

// showExplained prints a result as text or JSON.
func showExplained(s *State, asJSON bool, r explained) error {
	if asJSON {
		return printJSON(s.Out, r)
	}
	return r.WriteText(s.Out)
}

// drawable is a result with a figure; hasFigure adds the flag for it.
type drawable interface {
	Figure() (plots.ExplainFigure, error)
}

func hasFigure(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "out", "", "also plot the figure, to this `folder` or PNG file")
}

// drawExplained plots a figure to the PNG file out, or to the file name in the
// folder out.
func drawExplained(s *State, out, name string, figure plots.ExplainFigure) error {
	path := out
	if !strings.HasSuffix(strings.ToLower(path), ".png") {
		path = filepath.Join(path, name)
	}
	if err := report.MakeFolder(filepath.Dir(path), ""); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	if err := writeExplainFigure(path, figure); err != nil {
		return err
	}
	_, err := textutil.Fprintf(s.Err, "wrote %s\n", path)
	return err
}

func writeExplainFigure(path string, figure plots.ExplainFigure) error {
	err := plots.WriteFigure(path, func(w io.Writer) error { return plots.ExplainPlot(w, figure) })
	if err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return nil
}

// listVar adds a repeatable flag, a value of which gives one or more elements.
// Together they replace the default.
func listVar[T any](fs *pflag.FlagSet, to *[]T, name, usage string, parse func(text string) ([]T, error)) {
	n := 0
	fs.Func(name, usage, func(text string) error {
		more, err := parse(text)
		if err != nil {
			return err
		}
		*to = append((*to)[:n:n], more...)
		n = len(*to)
		return nil
	})
}

// rowVar is [listVar] for rows of numbers: each value is a row.
func rowVar(fs *pflag.FlagSet, to *[][]float64, name, usage string) {
	listVar(fs, to, name, usage, func(text string) ([][]float64, error) {
		row, err := parseRow(text)
		return [][]float64{row}, err
	})
}
