package cmd

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
)

func newExplain(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain",
		Short: "Work through the math on small examples or on your own numbers",
		Long: `Explain computes small worked examples with the functions that training uses:
length normalization, advantages, clipping, aggregation, overlong filtering, and
a whole loss step by step. Flags change the numbers. It writes no files, except
that advantages, clip and aggregation plot a figure with --out.

--batch computes losses and gradients, advantages or rewards of your own file.
"logprobs" prints the log-probability of each token of a completion.`,
		Example: `  grpo explain lengthnorm
  grpo explain advantages --group 1,1,0,0 --group 1,0,0,0
  grpo explain clip --old-logp -3.9 --logp -2.3
  grpo explain walkthrough --rewards 1,0,0.5
  grpo explain loss --batch my-cases.json --json`,
	}
	c.AddCommand(newExplainLengthNorm(s), newExplainAdvantages(s), newExplainClip(s), newExplainAggregation(s),
		newExplainOverlong(s), newExplainWalkthrough(s), newExplainLoss(s), newExplainReward(s), newExplainLogProbs(s))
	return c
}

func jsonFlag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "json", false, "print as JSON")
}

// result prints a subject's result as text or JSON.
func (s *State) result(asJSON bool, r interface{ WriteText(io.Writer) error }) error {
	if asJSON {
		return printJSON(s.Out, r)
	}
	return r.WriteText(s.Out)
}

// figureFlag is --out of a subject that has a figure.
type figureFlag struct{ out string }

func (f *figureFlag) add(c *cobra.Command) {
	c.Flags().StringVar(&f.out, "out", "", "also plot the figure, to this `folder` or PNG file")
}

// draw plots a figure to --out, if given, as name.png where that is a folder.
func (f *figureFlag) draw(s *State, name string, figure func() (plots.ExplainFigure, error)) error {
	if f.out == "" {
		return nil
	}
	path := f.out
	if !strings.HasSuffix(strings.ToLower(path), ".png") {
		path = filepath.Join(path, name+".png")
	}
	fig, err := figure()
	if err != nil {
		return err
	}
	if err := makePlain(filepath.Dir(path), rundir.KindOther); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	if err := plots.WriteFigure(path, func(w io.Writer) error { return plots.ExplainPlot(w, fig) }); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	_, err = textutil.Fprintf(s.Err, "wrote %s\n", path)
	return err
}
