package sweep

import (
	"context"
	"fmt"

	"grpo/internal/textutil"
	"grpo/pkg/sweep/slurm"
)

// heldText says how a held job starts.
func heldText(t *slurm.Task) string {
	by := "Slurm holds job"
	switch {
	case t.LaunchFailed():
		by = "its node could not start it, and " + by
	case t.Reason == "JobHeldAdmin":
		by = "an operator of the cluster, who alone can release it, holds job"
	}
	return fmt.Sprintf("%s %s (%s); it starts after scontrol release %s", by, t.ID, t.Reason, t.ID)
}

// replaceStuck cancels jobs that their nodes could not start, after their runs were submitted again.
func replaceStuck(ctx context.Context, run slurm.Exec, ids []string, note func(string)) {
	if len(ids) == 0 {
		return
	}
	text := fmt.Sprintf("a node could not start %s of these runs, which Slurm holds: new ones replace them",
		textutil.Count(len(ids), "job"))
	if err := slurm.Cancel(ctx, run, ids); err != nil {
		text += fmt.Sprintf(", but they could not be cancelled (%v): %s", err,
			textutil.CommandLine(append([]string{"scancel"}, ids...)))
	}
	note(text)
}
