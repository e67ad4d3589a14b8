package cmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/sweep/launch"
)

// cancelOptions are the inputs of `grpo cancel`.
type cancelOptions struct {
	dir  string
	json bool
}

func newCancel(s *State) *cobra.Command {
	o := &cancelOptions{}
	c := &cobra.Command{
		Use:   "cancel DIR",
		Short: "Cancel the jobs of a sweep or a study in Slurm",
		Long: `Cancel cancels the jobs of a sweep or a study that are still in Slurm's queue,
waiting or running, and the job that reports. Running runs save first, if Slurm
gives them the time. Finished runs stay, and the sweep's own command submits the
others again.`,
		Example: `  grpo cancel results/sweep-1a2b3c4d`,
		Args:    takes("the folder of a sweep or a study", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			return run(cmd, s, o, runCancel)
		},
	}
	addJSON(c, &o.json)
	return c
}

// cancelOutput is what --json prints.
type cancelOutput struct {
	Dir       string   `json:"dir"`
	Cancelled []string `json:"cancelled"`
}

func runCancel(ctx context.Context, s *State, o *cancelOptions) error {
	ids, submitted, err := launch.Cancel(ctx, o.dir)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, cancelOutput{o.dir, append([]string{}, ids...)})
	}
	switch {
	case submitted == 0:
		_, err = textutil.Fprintf(s.Out, "no job was submitted for %s\n", o.dir)
	case len(ids) == 0:
		_, err = textutil.Fprintf(s.Out, "no job of %s is in the queue any more\n", o.dir)
	default:
		_, err = textutil.Fprintf(s.Out, "cancelled %s: %s\n", textutil.Count(len(ids), "job"), strings.Join(ids, ", "))
	}
	return err
}
