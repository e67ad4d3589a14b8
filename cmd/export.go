package cmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

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

The network must be a Llama or Qwen network. TinyLM's safetensors files can be read
with PyTorch, but no other program knows the model.

DIR must not exist or must be empty, and appears only when it is complete.`,
		Example: `  grpo export results/train-1a2b3c4d --out my-model
  grpo export results/train-1a2b3c4d --which last --dtype bf16 --out my-model
  grpo export results/train-1a2b3c4d --merge --out my-model
  grpo export SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2`,
		Args: takes("the folder of a run, a checkpoint, a Hugging Face or PEFT folder or a GGUF file", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Path = args[0]
			dtypes := []string{"f32", "bf16"}
			switch {
			case o.Out == "":
				return usagef(cmd, "export needs --out DIR")
			case !slices.Contains(dtypes, o.Dtype):
				return usagef(cmd, "--dtype %s: there is no such type%s (there are f32 and bf16)",
					textutil.Show(o.Dtype), suggest.DidYouMean(o.Dtype, dtypes))
			case o.Which != "last" && o.Which != "best":
				return usagef(cmd, "--which %q is unknown (last or best)", o.Which)
			}
			return run(cmd, s, o, runExport)
		},
		Annotations: saves,
	}
	c.Flags().StringVar(&o.Out, "out", "", "write the new `folder` here")
	c.Flags().StringVar(&o.Dtype, "dtype", "f32", "type of the weights: `f32|bf16`")
	c.Flags().StringVar(&o.Which, "which", "best", "checkpoint of a run: `last|best`")
	c.Flags().BoolVar(&o.Merge, "merge", false, "add the adapters to the weights of their base model")
	c.Flags().StringVar(&o.AdapterBase, "adapter-base", "", "base `model` of a PEFT folder, if not the one that it names")
	addJSON(c, &o.json)
	for flag, values := range map[string][]string{"dtype": {"f32", "bf16"}, "which": {"last", "best"}} {
		complete(c, flag, func() []string { return values }, cobra.ShellCompDirectiveNoFileComp)
	}
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
