package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
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
	out     string // folder or file of the figure; empty: none
}

// explained is the result of a worked example or of a batch.
type explained interface{ WriteText(io.Writer) error }

// drawable is a result with a figure.
type drawable interface {
	Figure() (plots.ExplainFigure, error)
}

// worked gives c the flags that worked examples share, and the function that computes one; numbers are
// the defaults of its own flags. Numbers that compute refuses are usage errors.
func worked[N any, R explained](s *State, c *cobra.Command, numbers N, compute func(N) (R, error)) *N {
	o := &explainOptions[N]{numbers: numbers}
	addJSON(c, &o.json)
	var r R
	if _, draws := any(r).(drawable); draws {
		c.Flags().StringVar(&o.out, "out", "", "also plot the figure, to this `folder`, or PNG, SVG or PDF file")
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return run(cmd, s, o, func(_ context.Context, s *State, o *explainOptions[N]) error {
			r, err := compute(o.numbers)
			var path string
			if err == nil {
				path, err = figureFile(o.out, cmd.Name())
			}
			if err != nil {
				return &usageError{cmd, err}
			}
			if err := showExplained(s, o.json, r, r); err != nil || o.out == "" {
				return err
			}
			figure, err := any(r).(drawable).Figure()
			if err != nil {
				return &usageError{cmd, err}
			}
			if err := report.MakeFolder(filepath.Dir(path), ""); err != nil {
				return fmt.Errorf("draw %s: %w", path, err)
			}
			if err := writeExplainFigure(path, figure); err != nil {
				return err
			}
			_, err = textutil.Fprintf(s.Err, "wrote %s\n", path)
			return err
		})
	}
	return &o.numbers
}

// showExplained prints a result as text, or its data as JSON.
func showExplained(s *State, asJSON bool, r explained, data any) error {
	if asJSON {
		return printJSON(s.Out, data)
	}
	return r.WriteText(s.Out)
}

// figureFile is the file of a figure: out, or for a folder one of this name in it. What looks like
// a file of another format is refused; a folder of such a name exists or ends in a slash.
func figureFile(out, name string) (path string, err error) {
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(out)), ".")
	info, err := os.Stat(out)
	switch {
	case slices.Contains(config.FigureFormats, format):
		return out, nil
	case format == "" || err == nil && info.IsDir():
		return filepath.Join(out, name+".png"), nil
	}
	return "", fmt.Errorf("--out %s: the formats of figures are %s (the name of a folder ends in /)", out,
		strings.Join(config.FigureFormats, ", "))
}

func writeExplainFigure(path string, figure plots.ExplainFigure) error {
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	err := plots.WriteFigure(path, func(w io.Writer) error { return plots.ExplainPlot(w, figure, format) })
	if err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return nil
}
