package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/train"
)

// generateOptions are the inputs of `grpo generate`.
type generateOptions struct {
	load config.LoadOptions
	train.GenerateOptions
	json bool
}

var generateKeys = []keyFlag{modelKey, deviceKey}

func newGenerate(s *State) *cobra.Command {
	o := &generateOptions{GenerateOptions: train.GenerateOptions{Sampling: model.Sampling{TopP: 1}}}
	var cf configFlags
	c := &cobra.Command{
		Use:   "generate --prompt TEXT",
		Short: "Complete a prompt with a model",
		Long: `Generate prints completions of a prompt. A Hugging Face folder or a GGUF file with a
chat template gets the prompt as a user's message, unless --raw is given. Without
--model the embedded base model completes a word problem.`,
		Example: `  grpo generate --prompt "Leo has 9 bags of 6 hats. How many hats does Leo have in all?"
  grpo generate --model SmolLM2-135M-Instruct.Q4_1.gguf --prompt "What is the capital of France?"
  grpo generate --model SmolLM2-135M-Instruct.Q4_1.gguf --prompt "Once upon a time" --raw --temperature 0.8 -n 3`,
		Args: takes("no argument", 0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.load = cf.options(cmd, s, generateKeys)
			o.Greedy = o.Temperature == 0
			switch {
			case o.Prompt == "":
				return usagef(cmd, "generate needs --prompt TEXT")
			case o.Temperature < 0:
				return usagef(cmd, "--temperature %v must not be negative (0 takes the likeliest token)", o.Temperature)
			case o.Raw && o.System != "":
				return usagef(cmd, "--system is for a chat, which --raw turns off")
			}
			return run(cmd, s, o, runGenerate)
		},
	}
	cf.add(c, config.Names())
	addKeyFlags(c, generateKeys)
	c.Flags().StringVar(&o.Prompt, "prompt", "", "`text` to complete")
	c.Flags().StringVar(&o.System, "system", "", "system `prompt` of a chat")
	c.Flags().BoolVar(&o.Raw, "raw", false, "complete the prompt as it is, without the model's chat template")
	c.Flags().Float64Var(&o.Temperature, "temperature", 0, "sampling temperature; 0 takes the likeliest token")
	countVar(c.Flags(), &o.MaxTokens, "max-tokens", 64, 1, maxCount, "most tokens of a completion")
	c.Flags().IntVarP(&o.N, "n", "n", 1, "number of completions")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of sampling")
	addThreads(c.Flags(), &o.Threads, "")
	addJSON(c, &o.json)
	return c
}

func runGenerate(_ context.Context, s *State, o *generateOptions) error {
	l, err := config.Load(o.load)
	if err != nil {
		return err
	}
	o.Model = l.Config.Model
	out, err := train.Generate(o.GenerateOptions)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, out)
	}
	for _, g := range out {
		textutil.Fprintf(s.Out, "%s\n", textutil.Lines(g.Text))
	}
	return nil
}
