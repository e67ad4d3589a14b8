package analysis

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
)

// mostSeeds is the highest number of seeds that is worth a suggestion: the verdict says how many would be
// needed in any case.
const mostSeeds = 100

// moreSeeds is the number of seeds that [Analysis.deciding] would need, as --seeds takes it. The whole command
// is [Analysis.SeedsCommand]: a report does not depend on the command that made it. There is no finding if the
// number can't be estimated.
func (a *Analysis) moreSeeds() []Finding {
	c := a.deciding()
	if c == nil {
		return nil
	}
	n, seeds := c.SeedsNeeded, a.Sweep.Manifest.Seeds
	if n > mostSeeds || n <= len(seeds) {
		return nil
	}
	return []Finding{{Kind: SeedsToAdd, Count: n, Values: []string{seedList(seeds, n)}}}
}

// deciding is the comparison that the answer waits for: the interaction in a grid; where the best arm is looked
// for, that arm with the closest of those that it is not separable from; with a reference, the first that is not
// separable. nil if there is none, and where every arm diverged.
func (a *Analysis) deciding() *Comparison {
	open := a.finals()
	interaction := func(c Comparison) bool { return c.Kind == KindInteraction }
	if slices.ContainsFunc(open, interaction) {
		open = slices.DeleteFunc(open, func(c Comparison) bool { return !interaction(c) })
	}
	open = slices.DeleteFunc(open, func(c Comparison) bool { return c.SeedsNeeded == 0 })
	if len(open) == 0 || a.Best < 0 && a.Sweep.Manifest.Reference == "" {
		return nil
	}
	if a.plan().chosen {
		slices.SortStableFunc(open, func(c, d Comparison) int { return cmp.Compare(math.Abs(c.Mean), math.Abs(d.Mean)) })
	}
	return &open[0]
}

// SeedsCommand is the command that adds the seeds of the finding [SeedsToAdd], for a shell; empty if there
// is none.
func (a *Analysis) SeedsCommand() string {
	i := slices.IndexFunc(a.Findings, func(f Finding) bool { return f.Kind == SeedsToAdd })
	if i < 0 {
		return ""
	}
	return textutil.CommandLine(withSeeds(&a.Sweep.Manifest, a.Sweep.Dir, a.Findings[i].Values[0]))
}

// withSeeds is the command of a sweep in dir with other seeds; nil if the manifest does not have the
// command that made it. A study can't get seeds in its folder: its command writes to another and reuses
// the runs of this one. The folder may have been moved, or chosen by --fresh, so --out is not copied.
func withSeeds(m *sweepdir.Manifest, dir, seeds string) []string {
	if len(m.Argv) < 2 || !slices.Contains([]string{"sweep", "ablate", "assignment"}, m.Argv[1]) {
		return nil
	}
	folder := []string{"--out", dir}
	if m.Argv[1] == "assignment" {
		folder = []string{"--reuse", filepath.Dir(dir)} // of the study: dir is that of a part
	}
	args, named := sweepdir.InFolder(m.Argv[1:], folder, "--seeds")
	if m.Fresh && !named {
		args = append(args, folder...)
	}
	return slices.Concat([]string{"grpo"}, args, []string{"--seeds", seeds})
}

// seedList writes n seeds, as --seeds takes them: those of the sweep, then the smallest others.
func seedList(seeds []uint64, n int) string {
	all := slices.Clone(seeds)
	for next := uint64(1); len(all) < n; next++ {
		if !slices.Contains(all, next) {
			all = append(all, next)
		}
	}
	if slices.Max(all) == uint64(n) && !slices.Contains(all, 0) {
		return strconv.Itoa(n) // the seeds 1 to n
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ",")
}
