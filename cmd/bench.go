package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/textutil"
	"grpo/pkg/bench"
	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

func newBench(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of a train step and of the kernels",
		Long: `Bench measures on this machine what docs/performance.md reports. All times are
wall-clock times; on a busy machine compare medians, and ratios within one run.`,
		Example: `  grpo bench step --steps 5
  grpo bench kernels --json`,
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
	fs.StringVar(&o.Precision, "precision", "float32", "precision of matmuls: `float32|tf32|bf16`")
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
		Long: `Step measures rollout and update with the code that training uses, with a reward
that makes every group informative. Times are means over the steps; medians are
next to them.

Without --model it takes a TinyLM with random weights, random prompts and fixed
lengths. --model takes the steps of the configuration smollm2 with a Llama or Qwen
model: 8 prompts of its chat, 8 completions each, which end by themselves after at
most 32 tokens unless --response-len is given. --prompt-len replaces these prompts
by random tokens, and --set changes other keys of the configuration.

With --algorithm dpo each two completions of a group are a pair. The update then
includes the forward pass of the reference model, as a step of TRL's DPOTrainer does.`,
		Example: `  grpo bench step --threads 1
  grpo bench step --hidden 128 --steps 50 --json
  grpo bench step --algorithm dpo --group 2
  grpo bench step --model SmolLM2-135M-Instruct.gguf --precision bf16
  grpo bench step --model Qwen2.5-1.5B --device cuda --precision bf16 --prompts 32 --prompt-len 150 \
    --response-len 300 --set train.lora.rank=16 --set train.micro_batch_tokens=32768`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Model == "" && len(o.Set) > 0 {
				return usagef(cmd, "--set is for --model: it has no effect on a TinyLM")
			}
			if o.Model != "" {
				if err := o.ofModel(cmd); err != nil {
					return err
				}
			}
			return run(cmd, s, o, runBenchStep)
		},
	}
	addBenchFlags(c.Flags(), &o.BenchOptions)
	c.Flags().StringVar(&o.Algorithm, "algorithm", "grpo", "measure the step of this algorithm: `grpo|dpo`")
	c.Flags().StringVar(&o.Model, "model", "", "measure this Hugging Face folder or GGUF file at `path`")
	c.Flags().StringArrayVar(&o.Set, "set", nil, "with --model, set a `key=value` of its configuration (repeatable)")
	addJSON(c, &o.json)
	o.profile.add(c, "the working folder")
	return c
}

// ofModel replaces the defaults that are for TinyLM.
func (o *benchStepOptions) ofModel(c *cobra.Command) error {
	if name := changed(c, "hidden", "layers"); name != "" {
		return usagef(c, "--%s is for TinyLM: it has no effect with --model", name)
	}
	if !c.Flags().Changed("prompts") {
		o.Prompts = 8
	}
	if !c.Flags().Changed("response-len") {
		o.ResponseLen = 0
	}
	if !c.Flags().Changed("prompt-len") {
		o.PromptLen = 0
	}
	return nil
}

func runBenchStep(ctx context.Context, s *State, o *benchStepOptions) error {
	p := newProgress(s, false)
	o.Now, o.Memory, o.Progress = s.Now, s.checkMemory, p.Doing
	var r *train.BenchResult
	err := o.profile.during(s, ".", func() (err error) {
		r, err = train.Bench(ctx, o.BenchOptions)
		p.done()
		return err
	})
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, r)
	}
	textutil.Fprintf(s.Out, "%d parameters, %d threads, %d steps of %.0f prompt tokens and %.0f sampled ones\n",
		r.Params, r.Threads, o.Steps, r.PromptTokens, r.Tokens)
	row := func(name, value, note string, args ...any) {
		textutil.Fprintf(s.Out, "%-8s %-17s %s\n", name, value, fmt.Sprintf(note, args...))
	}
	ms := func(s float64) string { return fmt.Sprintf("%8.2f ms", 1000*s) }
	row("rollout", ms(r.RolloutS), "median %s, %.0f tokens/s", ms(r.MedianS.Rollout), r.RolloutTokS)
	row("update", ms(r.UpdateS), "median %s, %.0f tokens/s", ms(r.MedianS.Update), r.UpdateTokS)
	if r.ReferenceS > 0 {
		row("", ms(r.ReferenceS), "of the update is the pass of the reference model")
	}
	row("step", ms(r.StepS), "median %s", ms(r.MedianStepS))
	row("rate", fmt.Sprintf("%8.1f GFLOP/s", r.GFLOPS), "nominal; update: nominal %.1f, executed %.1f",
		r.UpdateGFLOPS, r.UpdateExecuted)
	if r.Peak > 0 {
		row("peak", fmt.Sprintf("%8.1f GFLOP/s", r.Peak), "of a core (%s); update %.0f %% of it, rollout %.0f %%",
			r.Kernel, 100*r.UpdateShare, 100*r.RolloutShare)
	}
	if o.Model == "" {
		row("graph", fmt.Sprintf("%8.2f %%", 100*r.GraphShare), "of the step outside the arithmetic of its nodes")
	}
	row("memory", fmt.Sprintf("%8.0f", r.AllocsPerStep), "allocations per step, %.0f KiB", r.BytesPerStep/1024)
	if r.Device != "" {
		row("device", fmt.Sprintf("%8.1f MiB", float64(r.DeviceBytes)/(1<<20)),
			"in use, %d allocations from the driver while measuring; %s", r.DeviceRequests, r.Device)
	}
	return nil
}

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
	textutil.Fprintf(s.Out, "kernel %s, one thread; peak %.1f GFLOP/s, fastest matmul %.1f\n",
		k.Path, k.Peak, k.Best)
	if k.PeakBF16 > 0 {
		textutil.Fprintf(s.Out, "peak in bf16 %.1f GFLOP/s\n", k.PeakBF16)
	}
	for _, r := range k.Rows {
		value := fmt.Sprintf("%9.2f ns/unit", r.NsPerUnit)
		if r.GFLOPS > 0 {
			value = fmt.Sprintf("%7.1f GFLOP/s", r.GFLOPS)
			if k.Peak > 0 {
				value += fmt.Sprintf("  %3.0f %%", 100*r.Share)
			}
		}
		textutil.Fprintf(s.Out, "%-29s %-56s %s\n", r.Kernel, r.Shape, value)
	}
	return nil
}

// Files of `grpo bench scaling`.
const (
	scalingFile = "scaling.md"
	scalingPlot = "scaling.png"
)

// benchScalingOptions are the inputs of `grpo bench scaling`.
type benchScalingOptions struct {
	train.BenchOptions
	out  string
	json bool
}

func newBenchScaling(s *State) *cobra.Command {
	o := &benchScalingOptions{}
	c := &cobra.Command{
		Use:   "scaling",
		Short: "Measure how the time of a step grows with each size and with threads",
		Long: `Scaling measures the step that the flags describe, varying one size at a time, and
prints a table. --out also writes the table and a figure (` + scalingFile + `, ` + scalingPlot + `).
It takes a minute or two.`,
		Example: `  grpo bench scaling --threads 1
  grpo bench scaling --threads 1 --out docs/performance`,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, s, o, runBenchScaling) },
	}
	addBenchFlags(c.Flags(), &o.BenchOptions)
	c.Flags().StringVar(&o.out, "out", "", "`folder` to write table and figure to")
	addJSON(c, &o.json)
	return c
}

func runBenchScaling(ctx context.Context, s *State, o *benchScalingOptions) error {
	if o.out != "" { // before a minute of measuring
		if err := report.MakeFolder(o.out, ""); err != nil {
			return fmt.Errorf("write the figures: %w", err)
		}
	}
	o.Now, o.Memory = s.Now, s.checkMemory
	series, err := bench.Scaling(ctx, o.BenchOptions, func(name string, value int) {
		textutil.Fprintf(s.Err, "measuring %s %d\n", name, value)
	})
	if err != nil {
		return err
	}
	table := bench.ScalingTable(series)
	if o.out != "" {
		if err := rundir.WriteFileAtomic(filepath.Join(o.out, scalingFile), table); err != nil {
			return err
		}
		path := filepath.Join(o.out, scalingPlot)
		figure := bench.ScalingFigure(series, o.BenchOptions)
		if err := writeExplainFigure(path, figure); err != nil {
			return err
		}
	}
	if o.json {
		return printJSON(s.Out, series)
	}
	_, err = s.Out.Write(table)
	return err
}

// profileKinds are what --profile can record, with the file of each.
var profileKinds = []struct {
	kind, file, show string
	start            func(io.Writer) error
	stop             func(io.Writer) error
}{
	{"cpu", "cpu.pprof", "go tool pprof -top", pprof.StartCPUProfile,
		func(io.Writer) error { pprof.StopCPUProfile(); return nil }},
	{"heap", "heap.pprof", "go tool pprof -sample_index=alloc_space -top", func(io.Writer) error { return nil },
		func(w io.Writer) error { runtime.GC(); return pprof.Lookup("allocs").WriteTo(w, 0) }},
	{"trace", "trace.out", "go tool trace", trace.Start,
		func(io.Writer) error { trace.Stop(); return nil }},
}

// profileFlag is --profile.
type profileFlag struct{ kind string }

func (p *profileFlag) add(c *cobra.Command, where string) {
	var kinds []string
	for _, k := range profileKinds {
		kinds = append(kinds, k.kind)
	}
	choiceVar(c, &p.kind, "profile", "", "profile", kinds, "write a profile (`cpu|heap|trace`) to "+where)
}

// during records while f runs, writes the profile into dir, which f makes, and prints
// how to read it. Without --profile it only runs f.
func (p *profileFlag) during(s *State, dir string, f func() error) error {
	for _, k := range profileKinds {
		if k.kind != p.kind {
			continue
		}
		var to bytes.Buffer
		if err := k.start(&to); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		failed := f()
		if err := k.stop(&to); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		// A folder that was refused is not the run's.
		if _, err := os.Stat(dir); err != nil || errors.Is(failed, config.ErrConfig) {
			return failed
		}
		path := filepath.Join(dir, k.file)
		if err := rundir.WriteFileAtomic(path, to.Bytes()); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		textutil.Fprintf(s.Err, "profile: %s (read it with \"%s %s\")\n", path, k.show, path)
		return failed
	}
	return f()
}
