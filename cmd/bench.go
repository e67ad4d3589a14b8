package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/textutil"
	"grpo/pkg/train"
)

func newBench(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of a training step, of the kernels, and how cost grows",
		Long: `Bench measures on this machine what docs/performance.md says. Figures are of
wall-clock time; on a machine that does other things too compare medians, and
ratios within one run.`,
	}
	c.AddCommand(newBenchStep(s), newBenchKernels(s), newBenchScaling(s))
	return c
}

// addBenchFlags adds the sizes of a step.
func addBenchFlags(fs *pflag.FlagSet, o *train.BenchOptions) {
	fs.IntVar(&o.Prompts, "prompts", 32, "prompts of a step")
	fs.IntVar(&o.Group, "group", 8, "completions of a prompt")
	fs.IntVar(&o.PromptLen, "prompt-len", 64, "tokens of a prompt, <bos> and newline included")
	fs.IntVar(&o.ResponseLen, "response-len", 24, "tokens of a completion; none ends early")
	fs.IntVar(&o.Hidden, "hidden", 64, "hidden size")
	fs.IntVar(&o.Layers, "layers", 2, "GRU layers")
	fs.IntVar(&o.Steps, "steps", 20, "steps to measure, after one that is not measured")
	addThreads(fs, &o.Threads, "")
	fs.StringVar(&o.Device, "device", "cpu", "where the arithmetic runs: cpu, cuda or auto")
	fs.StringVar(&o.Precision, "precision", "float32", "matrix products of a GPU: float32, tf32 or bf16")
	fs.Uint64Var(&o.Seed, "seed", 1, "seed of weights, prompts and sampling")
}

func newBenchStep(s *State) *cobra.Command {
	var o train.BenchOptions
	var asJSON bool
	var pf profileFlag
	c := &cobra.Command{
		Use:   "step",
		Short: "Seconds, tokens a second and GFLOP/s of a training step",
		Long: `Step measures rollout and update by the code that trains, with random weights,
random prompts, fixed lengths and a reward that gives every group a signal. The
printed seconds are means over the steps; the medians stand beside them.`,
		Example: `  grpo bench step --threads 1
  grpo bench step --hidden 128 --steps 50 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := pf.check(); err != nil {
				return err
			}
			return pf.during(s, ".", func() error { return runBenchStep(cmd.Context(), s, o, asJSON) })
		},
	}
	addBenchFlags(c.Flags(), &o)
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	pf.add(c.Flags(), "the working folder")
	return c
}

func runBenchStep(ctx context.Context, s *State, o train.BenchOptions, asJSON bool) error {
	o.Now, o.Memory = s.Now, s.checkMemory
	r, err := train.Bench(ctx, o)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(s.Out, r)
	}
	ms := func(s float64) string { return fmt.Sprintf("%8.2f ms", 1000*s) }
	rows := []struct{ name, value, note string }{
		{"rollout", ms(r.RolloutS), fmt.Sprintf("median %s, %.0f tokens/s", ms(r.MedianS.Rollout), r.RolloutTokS)},
		{"update", ms(r.UpdateS), fmt.Sprintf("median %s, %.0f tokens/s", ms(r.MedianS.Update), r.UpdateTokS)},
		{"step", ms(r.StepS), fmt.Sprintf("median %s", ms(r.MedianStepS))},
		{"rate", fmt.Sprintf("%8.1f GFLOP/s", r.GFLOPS), fmt.Sprintf("of the update %.1f, of which executed %.1f", r.UpdateGFLOPS, r.UpdateExecuted)},
		{"graph", fmt.Sprintf("%8.2f %%", 100*r.GraphShare), "of the step, outside the arithmetic of its nodes"},
		{"memory", fmt.Sprintf("%8.0f", r.AllocsPerStep), fmt.Sprintf("allocations a step, %.0f KiB", r.BytesPerStep/1024)},
	}
	if r.Device != "" {
		rows = append(rows, struct{ name, value, note string }{"device", fmt.Sprintf("%8.1f MiB", float64(r.DeviceBytes)/(1<<20)),
			fmt.Sprintf("of its memory, %d requests for more while measuring; %s", r.DeviceRequests, r.Device)})
	}
	if _, err := textutil.Fprintf(s.Out, "%d parameters, %d threads, %d steps\n", r.Params, r.Threads, o.Steps); err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := textutil.Fprintf(s.Out, "%-8s %-17s %s\n", row.name, row.value, row.note); err != nil {
			return err
		}
	}
	return nil
}
