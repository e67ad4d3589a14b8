package report

import (
	"fmt"
	"path/filepath"
	"strings"

	"grpo/pkg/rundir"
)

// gaps lists what a folder lacks, a line each: files that are missing and
// partial lines.
func gaps(r *rundir.Run) []string {
	var out []string
	if len(r.Missing) > 0 {
		out = append(out, "missing: "+strings.Join(r.Missing, ", "))
	}
	for _, t := range r.Partial {
		out = append(out, fmt.Sprintf("partial: line %d of %s, left out", t.Line, filepath.Base(t.Path)))
	}
	return out
}

// splitName is a split in the words of tables and figures.
func splitName(split string) string {
	switch split {
	case rundir.SplitVal:
		return "validation"
	case rundir.SplitUnseen:
		return "unseen facts"
	}
	return split
}
