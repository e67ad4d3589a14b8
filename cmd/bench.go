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
		Short: "Measure the speed of a train step and of the kernels",
		Long: `Bench measures on this machine what docs/performance.md reports. All times are
wall-clock times; on a busy machine compare medians, and ratios within one run.`,
	}
	c.AddCommand(newBenchStep(s), newBenchKernels(s), newBenchScaling(s))
	return c
}

// addBenchFlags adds the sizes of a step.
func addBenchFlags(fs *pflag.FlagSet, o *train.BenchOptions) {
	fs.IntVar(&o.Prompts, "prompts", 32, "prompts per step")
	fs.IntVar(&o.Group, "group", 8, "completions per prompt")
	fs.IntVar(&o.PromptLen, "prompt-len", 64, "tokens per prompt, including <bos> and newline")
	fs.IntVar(&o.ResponseLen, "response-len", 24, "tokens per completion; none ends early")
	fs.IntVar(&o.Hidden, "hidden", 64, "hidden size")
	fs.IntVar(&o.Layers, "layers", 2, "number of GRU layers")
	fs.IntVar(&o.Steps, "steps", 20, "steps to measure, after one warm-up step")
	addThreads(fs, &o.Threads, "")
	fs.StringVar(&o.Device, "device", "cpu", "device to run on: `cpu|cuda|auto`")
	fs.StringVar(&o.Precision, "precision", "float32", "precision of matmuls on a GPU: `float32|tf32|bf16`")
	fs.Uint64Var(&o.Seed, "seed", 1, "seed of weights, prompts and sampling")
}

// benchStepOptions are the inputs of `grpo bench step`.
type benchStepOptions struct {
	train.BenchOptions
	json    bool
	profile profileFlag
}

func newBenchStep(s *State) *cobra.Command {
	o := &benchStepOptions{}
	c := &cobra.Command{
		Use:   "step",
		Short: "Measure time, tokens/s and GFLOP/s of a train step",
		Long: `Step measures rollout and update with the code that training uses, with random
weights, random prompts, fixed lengths and a reward that makes every group
informative. Times are means over the steps; medians are next to them.`,
		Example: `  grpo bench step --threads 1
  grpo bench step --hidden 128 --steps 50 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.profile.check(cmd); err != nil {
				return err
			}
			return run(cmd, s, o, runBenchStep)
		},
	}
	addBenchFlags(c.Flags(), &o.BenchOptions)
	addJSON(c, &o.json)
	o.profile.add(c.Flags(), "the working folder")
	return c
}

func runBenchStep(ctx context.Context, s *State, o *benchStepOptions) error {
	o.Now, o.Memory = s.Now, s.checkMemory
	var r *train.BenchResult
	err := o.profile.during(s, ".", func() (err error) {
		r, err = train.Bench(ctx, o.BenchOptions)
		return err
	})
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, r)
	}
	ms := func(s float64) string { return fmt.Sprintf("%8.2f ms", 1000*s) }
	type row struct{ name, value, note string }
	rows := []row{
		{"rollout", ms(r.RolloutS), fmt.Sprintf("median %s, %.0f tokens/s", ms(r.MedianS.Rollout), r.RolloutTokS)},
		{"update", ms(r.UpdateS), fmt.Sprintf("median %s, %.0f tokens/s", ms(r.MedianS.Update), r.UpdateTokS)},
		{"step", ms(r.StepS), fmt.Sprintf("median %s", ms(r.MedianStepS))},
		{"rate", fmt.Sprintf("%8.1f GFLOP/s", r.GFLOPS),
			fmt.Sprintf("nominal; update: nominal %.1f, executed %.1f", r.UpdateGFLOPS, r.UpdateExecuted)},
		{"graph", fmt.Sprintf("%8.2f %%", 100*r.GraphShare), "of the step outside the arithmetic of its nodes"},
		{"memory", fmt.Sprintf("%8.0f", r.AllocsPerStep),
			fmt.Sprintf("allocations per step, %.0f KiB", r.BytesPerStep/1024)},
	}
	if r.Device != "" {
		rows = append(rows, row{"device", fmt.Sprintf("%8.1f MiB", float64(r.DeviceBytes)/(1<<20)),
			fmt.Sprintf("in use, %d allocations from the driver while measuring; %s", r.DeviceRequests, r.Device)})
	}
	_, err = textutil.Fprintf(s.Out, "%d parameters, %d threads, %d steps\n", r.Params, r.Threads, o.Steps)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := textutil.Fprintf(s.Out, "%-8s %-17s %s\n", row.name, row.value, row.note); err != nil {
			return err
		}
	}
	return nil
}
