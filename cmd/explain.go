package cmd

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/explain"
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

// explained is the result of a subject.
type explained interface{ WriteText(io.Writer) error }

// showExplained prints the result of a subject. Its inputs come from flags, so
// what is wrong with them is a mistake in the command line.
func showExplained(s *State, c *cobra.Command, asJSON bool, r explained, err error) error {
	switch {
	case err != nil:
		return &usageError{c, err}
	case asJSON:
		return printJSON(s.Out, r)
	}
	return r.WriteText(s.Out)
}

// figureFlag says where a subject's figure goes.
type figureFlag struct{ out string }

func (f *figureFlag) add(c *cobra.Command) {
	c.Flags().StringVar(&f.out, "out", "", "also plot the figure, to this `folder` or PNG file")
}

// draw draws a figure as name.png in the folder that --out says, if it was given.
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

// batchFlag names a file of cases.
type batchFlag struct{ path string }

func (f *batchFlag) add(c *cobra.Command, form string) {
	c.Flags().StringVar(&f.path, "batch", "", "`file` of cases in "+form+" (\"-\" = standard input)")
}

// read returns the file and the name that errors call it by.
func (f *batchFlag) read(s *State, c *cobra.Command) (name string, data []byte, err error) {
	switch f.path {
	case "":
		return "", nil, &usageError{c, errors.New("no file: give one with --batch FILE")}
	case "-":
		name = "standard input"
		data, err = explain.Read(name, s.In)
	default:
		name = f.path
		data, err = explain.ReadFile(name)
	}
	return name, data, missingInput(err)
}
