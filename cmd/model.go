package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// generateOptions are the inputs of `grpo generate`.
type generateOptions struct {
	load config.LoadOptions
	infer.GenerateOptions
	file  string // of prompts
	json  bool
	quiet bool
}

var generateKeys = []keyFlag{modelKey, deviceKey}

func newGenerate(s *State) *cobra.Command {
	o := &generateOptions{GenerateOptions: infer.GenerateOptions{Sampling: model.Sampling{TopP: 1}}}
	var cf configFlags
	c := &cobra.Command{
		Use:   "generate --prompt TEXT",
		Short: "Complete prompts with a model",
		Long: `Generate prints completions of one or more prompts. Without --model the embedded base
model completes a word problem.

A prompt is a question to the configuration's prompt template (data.prompt_template,
with its system prompt and worked examples), as in training. The configuration is that
of -c, or the run's own if --model is a run folder. If it does not set a template, a
Hugging Face folder or a GGUF file with a chat template gets the prompt as a user's
message. --raw sends the text as it is, and special tokens such as
<|im_start|> in it are parsed; otherwise they are plain text.

Standard output is the text of the completions, each with a newline after it, and nothing
else; a terminal gets control characters escaped. --json has all else.`,
		Example: `  grpo generate --prompt "Leo has 9 bags of 6 hats. How many hats does Leo have in all?"
  grpo generate --model SmolLM2-135M-Instruct.Q4_1.gguf --prompt "What is the capital of France?"
  grpo generate --model results/train-1a2b3c4d --prompts questions.txt --json
  grpo generate --model SmolLM2-135M-Instruct.Q4_1.gguf --prompt "Once upon a time" --raw --temperature 0.8 -n 3
  cat letter.txt | grpo generate --model SmolLM2-135M-Instruct.Q4_1.gguf --prompt - --max-tokens 200`,
		Args: takes("no argument (give prompts with --prompt)", 0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.load = cf.optionsOfRun(cmd, s)
			o.load.Only = config.NoSplit
			o.Greedy = o.Temperature == 0
			sampling := changed(cmd, "top-p", "top-k", "seed") != ""
			switch {
			case len(o.Prompts) == 0 && o.file == "":
				return usagef(cmd, "generate needs --prompt TEXT or --prompts FILE")
			case o.Temperature != 0 && !config.IsTemperature(o.Temperature):
				return usagef(cmd, "--temperature %v: give 0, which takes the likeliest token, or 1e-30 to 1e30", o.Temperature)
			case !(o.TopP > 0 && o.TopP <= 1):
				return usagef(cmd, "--top-p %v must be above 0 and at most 1 (1 = all tokens)", o.TopP)
			case o.Greedy && (o.N > 1 || sampling):
				return usagef(cmd, "-n, --top-p, --top-k and --seed are for sampling: set --temperature above 0")
			case o.Raw && o.System != "":
				return usagef(cmd, "--system is for a chat, which --raw turns off")
			}
			return run(cmd, s, o, runGenerate)
		},
	}
	cf.add(c, config.Names(), generateKeys)
	f := c.Flags()
	f.StringArrayVar(&o.Prompts, "prompt", nil, "`text` to complete; \"-\" = standard input (repeatable)")
	f.StringVar(&o.file, "prompts", "", "`file` of prompts, one per line (\"-\" = standard input)")
	f.StringVar(&o.System, "system", "", "system `prompt` of a chat, instead of the configuration's")
	f.BoolVar(&o.Raw, "raw", false, "complete the prompt as it is, without a prompt template")
	f.Float64Var(&o.Temperature, "temperature", 0, "sampling temperature; 0 takes the likeliest token")
	f.Float64Var(&o.TopP, "top-p", 1, "sample from the likeliest tokens whose probabilities add up to this")
	countVar(f, &o.TopK, "top-k", 0, 0, maxCount, "sample from this many likeliest tokens (0 = all)")
	countVar(f, &o.MaxTokens, "max-tokens", 64, 1, maxCount, "most tokens of a completion")
	countVar(f, &o.N, "n", 1, 1, maxCount, "number of completions of each prompt")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of sampling")
	addThreads(f, &o.Threads, "")
	addJSON(c, &o.json)
	addQuiet(f, &o.quiet)
	return c
}

// maxPrompts bounds the prompts of a file or of standard input, in bytes.
const maxPrompts = 16 << 20

func runGenerate(_ context.Context, s *State, o *generateOptions) error {
	l, err := config.Load(o.load)
	if err != nil {
		return err
	}
	p := newProgress(s, o.quiet)
	o.Config, o.Memory, o.Note, o.Progress = l.Config, s.checkMemory, p.Note, p.Doing
	if o.Prompts, err = readPrompts(s, o.Prompts, o.file, o.Raw); err != nil {
		return missingInput(err)
	}
	out, err := infer.Generate(o.GenerateOptions)
	p.done()
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, out)
	}
	cut := 0
	for i, g := range out {
		if len(o.Prompts) > 1 && i%o.N == 0 {
			textutil.Fprintf(s.Err, "> %s\n", textutil.Lines(g.Prompt))
		}
		text := g.Text
		if s.Terminal {
			text = textutil.Screen(text)
		}
		if _, err := io.WriteString(s.Out, text+"\n"); err != nil { // a file or a pipe gets every byte of it
			return err
		}
		if !g.Ended {
			cut++
		}
	}
	if cut > 0 {
		textutil.Fprintf(s.Err, "%s cut at --max-tokens %d\n", textutil.Count(cut, "completion"), o.MaxTokens)
	}
	return nil
}

// readPrompts reads the prompts that are "-" from standard input, and appends those of a file. A raw one keeps the line
// break at its end.
func readPrompts(s *State, prompts []string, file string, raw bool) ([]string, error) {
	input := func(from io.Reader) (string, error) {
		data, err := io.ReadAll(io.LimitReader(from, maxPrompts+1))
		if err == nil && len(data) > maxPrompts {
			err = fmt.Errorf("more than %d MiB", maxPrompts>>20)
		}
		return string(data), err
	}
	var out []string
	for _, p := range prompts {
		if p == "-" {
			var err error
			if p, err = input(s.In); err != nil {
				return nil, fmt.Errorf("read the prompt from standard input: %w", err)
			}
			if !raw {
				p = strings.TrimRight(p, "\r\n")
			}
		}
		out = append(out, p)
	}
	if file != "" {
		from := s.In
		if file != "-" {
			f, err := regular.Named(file)
			if err != nil {
				return nil, fmt.Errorf("read prompts: %w", err)
			}
			defer f.Close()
			from = f
		}
		text, err := input(from)
		if err != nil {
			return nil, fmt.Errorf("read prompts from %s: %w", file, err)
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				out = append(out, line)
			}
		}
	}
	for i, p := range out {
		if p == "" {
			return nil, config.Invalid(fmt.Errorf("prompt %d is empty", i+1))
		}
	}
	if len(out) == 0 {
		return nil, config.Invalid(fmt.Errorf("read prompts from %s: there are none", file))
	}
	return out, nil
}

// exportOptions are the inputs of `grpo export`.
type exportOptions struct {
	policy.ExportOptions
	json bool
}

func newExport(s *State) *cobra.Command {
	o := &exportOptions{}
	c := &cobra.Command{
		Use:   "export RUN|MODEL --out DIR",
		Short: "Write a trained checkpoint as a Hugging Face or PEFT folder",
		Long: `Export writes a folder that transformers, vLLM and llama.cpp's converter load:
configuration, tokenizer, chat template, and the weights in model.safetensors. RUN
is the folder of a run, of which it takes the best weights, or a checkpoint's file;
MODEL is a Hugging Face or PEFT folder or a GGUF file, whose weights are
dequantised. A folder's tokenizer files are copied; those of a GGUF file are made
from its metadata.

Of a run with LoRA, and of a PEFT folder, it writes the adapters as a PEFT folder,
or with --merge the whole model, with the adapters added to its weights.

The network must be one that --model reads, such as a Llama or Qwen network. TinyLM's
safetensors files can be read with PyTorch, but no other program knows the model.

DIR must not exist or must be empty, and appears only when it is complete.`,
		Example: `  grpo export results/train-1a2b3c4d --out my-model
  grpo export results/train-1a2b3c4d --which last --dtype bf16 --out my-model
  grpo export results/train-1a2b3c4d --merge --out my-model
  grpo export SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2`,
		Args: takes("the folder of a run, a checkpoint, a Hugging Face or PEFT folder or a GGUF file", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Path = args[0]
			if o.Out == "" {
				return usagef(cmd, "export needs --out DIR")
			}
			return run(cmd, s, o, runExport)
		},
		Annotations: saves,
	}
	c.Flags().StringVar(&o.Out, "out", "", "write the new `folder` here")
	choiceVar(c, &o.Dtype, "dtype", "f32", "type", []string{"f32", "bf16"}, "type of the weights: `f32|bf16`")
	addWhich(c, &o.Which, "best", "")
	c.Flags().BoolVar(&o.Merge, "merge", false, "add the adapters to the weights of their base model")
	c.Flags().StringVar(&o.AdapterBase, "adapter-base", "", "base `model` of the adapters, if not the one that they name")
	addJSON(c, &o.json)
	return c
}

func runExport(ctx context.Context, s *State, o *exportOptions) error {
	o.Disk = s.checkDisk
	p := newProgress(s, false)
	p.Doing(model.Activity{What: "exporting " + filepath.Base(o.Path)})
	out, err := policy.Export(ctx, o.ExportOptions)
	p.done()
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("export %s: %w", o.Path, rundir.ErrNothingSaved)
	}
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, out)
	}
	textutil.Fprintf(s.Out, "wrote %s: the weights of %s as %s, %s\n", out.Dir, out.Source, out.Dtype,
		budget.Bytes(float64(out.Bytes)))
	return nil
}
