package cmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/model"
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
			o.load = cf.options(cmd, s)
			if dir := cmd.Flags().Lookup("model").Value.String(); o.load.Path == "" && isRun(dir) {
				o.load.Path = filepath.Join(dir, rundir.ConfigFile)
			}
			o.load.Only = config.NoSplit
			o.Greedy = o.Temperature == 0
			sampling := cmd.Flags().Changed("top-p") || cmd.Flags().Changed("top-k") || cmd.Flags().Changed("seed")
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
	o.N = 1
	f.VarP(&countFlag{&o.N, 1, maxCount}, "n", "n", "number of completions of each prompt")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of sampling")
	addThreads(f, &o.Threads, "")
	addJSON(c, &o.json)
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not show progress on standard error")
	return c
}

// isRun reports whether dir is the folder of a run.
func isRun(dir string) bool {
	kind, err := rundir.KindOf(dir)
	return err == nil && kind == rundir.KindRun
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
	if o.Prompts, err = readPrompts(s, o.Prompts, o.file); err != nil {
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

// readPrompts reads the prompts that are "-" from standard input, and appends those of a file.
func readPrompts(s *State, prompts []string, file string) ([]string, error) {
	input := func(from io.Reader) (string, error) {
		data, err := io.ReadAll(io.LimitReader(from, maxPrompts+1))
		if err == nil && len(data) > maxPrompts {
			err = fmt.Errorf("more than %d MiB", maxPrompts>>20)
		}
		return strings.TrimRight(string(data), "\r\n"), err
	}
	var out []string
	for _, p := range prompts {
		if p == "-" {
			var err error
			if p, err = input(s.In); err != nil {
				return nil, fmt.Errorf("read the prompt from standard input: %w", err)
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
