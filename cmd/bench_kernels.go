package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/bench"
)

// benchKernelsOptions are the inputs of `grpo bench kernels`.
type benchKernelsOptions struct {
	bench.Options
	json bool
}

func newBenchKernels(s *State) *cobra.Command {
	o := &benchKernelsOptions{}
	c := &cobra.Command{
		Use:   "kernels",
		Short: "Measure GFLOP/s of each kernel and the peak of a core",
		Long: `Kernels measures the arithmetic on one thread: matmuls at the shapes of training
and at common benchmark shapes, in GFLOP/s and relative to the peak of a loop of
multiply-adds on registers; the other kernels in nanoseconds per hidden unit,
logit or weight. All numbers are medians over the samples.`,
		Example: `  grpo bench kernels
  grpo bench kernels --json
  GRPO_KERNEL=go grpo bench kernels    the portable version`,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, s, o, runBenchKernels) },
	}
	countVar(c.Flags(), &o.Repeats, "repeats", 9, 1, maxCount, "samples per kernel")
	c.Flags().DurationVar(&o.Sample, "sample", 20*time.Millisecond, "minimum duration of a sample")
	addJSON(c, &o.json)
	return c
}

func runBenchKernels(ctx context.Context, s *State, o *benchKernelsOptions) error {
	o.Now = s.Now
	k, err := bench.MeasureKernels(ctx, o.Options)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, k)
	}
	if _, err := textutil.Fprintf(s.Out, "kernel %s, one thread; peak %.1f GFLOP/s, fastest matmul %.1f\n",
		k.Path, k.Peak, k.Best); err != nil {
		return err
	}
	for _, r := range k.Rows {
		value := fmt.Sprintf("%9.2f ns/unit", r.NsPerUnit)
		if r.GFLOPS > 0 {
			value = fmt.Sprintf("%7.1f GFLOP/s", r.GFLOPS)
			if k.Peak > 0 {
				value += fmt.Sprintf("  %3.0f %%", 100*r.Share)
			}
		}
		if _, err := textutil.Fprintf(s.Out, "%-29s %-48s %s\n", r.Kernel, r.Shape, value); err != nil {
			return err
		}
	}
	return nil
}
