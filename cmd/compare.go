package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/report"
	"grpo/pkg/sweep"
)

// compareOptions are the inputs of `grpo compare`.
type compareOptions struct {
	dirs   []string
	sortBy string
	top    int
	csv    bool
	json   bool
	md     bool
	equal  bool
}

func newCompare(s *State) *cobra.Command {
	o := &compareOptions{}
	c := &cobra.Command{
		Use:   "compare DIR...",
		Short: "Compare runs and arms of sweeps in one table",
		Long: `Compare reads the folders of runs, sweeps and studies and prints one table with a
row per run and per arm of a sweep. It does no statistical test, because rows of
different folders can differ in anything; for tests see "grpo report".

Columns to sort by: ` + wrapped(report.CompareColumns(), 80) + `.`,
		Example: `  grpo compare results/sweep-1a2b3c4d
  grpo compare results/train-* --sort-by final --top 5
  grpo compare results/sweep-1a2b3c4d results/ablate-5e6f7a8b --sort-by -entropy --md
  grpo compare results/train-* --csv > runs.csv
  grpo compare results/* --equal`,
		Args: takes("the folders of runs, sweeps or studies", 1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch name := strings.TrimPrefix(o.sortBy, "-"); {
			case o.top < 0 || o.top == 0 && cmd.Flags().Changed("top"):
				return usagef(cmd, "--top %d: give how many rows to print, 1 or more", o.top)
			case o.equal && (o.csv || o.md || o.top > 0 || o.sortBy != ""):
				return usagef(cmd, "--equal prints a table of its own: of the other flags it takes only --json")
			case o.csv && o.json || o.csv && o.md || o.json && o.md:
				return usagef(cmd, "--csv, --json and --md exclude each other")
			case o.sortBy != "" && !slices.Contains(report.CompareColumns(), name):
				return usagef(cmd, "--sort-by %s: there is no such column (there are %s)",
					name, strings.Join(report.CompareColumns(), ", "))
			}
			o.dirs = args
			return run(cmd, s, o, runCompare)
		},
	}
	f := c.Flags()
	f.StringVar(&o.sortBy, "sort-by", "",
		"sort by a `column`, highest number first; with \"-\" before the name, lowest first")
	f.IntVar(&o.top, "top", 0, "print only the first n rows (default all)")
	f.BoolVar(&o.csv, "csv", false, "print as CSV, every metric with its interval")
	addJSON(c, &o.json)
	f.BoolVar(&o.md, "md", false, "print as a Markdown table")
	f.BoolVar(&o.equal, "equal", false, "list the runs that have the same configuration (by its hash) instead")
	complete(c, "sort-by", report.CompareColumns, cobra.ShellCompDirectiveNoFileComp)
	return c
}

func runCompare(_ context.Context, s *State, o *compareOptions) error {
	if o.equal {
		return compareEqual(s, o)
	}
	rows, err := report.CompareFolders(o.dirs)
	if err != nil {
		return missingInput(fmt.Errorf("compare: %w", err))
	}
	if len(rows) == 0 {
		return errors.New("compare: the folders have no run yet")
	}
	if o.sortBy != "" {
		if err := report.SortRows(rows, o.sortBy); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	if o.top > 0 && o.top < len(rows) {
		rows = rows[:o.top]
	}
	warned := ""
	for _, r := range rows {
		if len(r.OtherContents) > 0 && r.Dir != warned {
			warned = r.Dir
			textutil.Fprintf(s.Err, "warning: %s: runs were made with different contents of %s and are not comparable\n",
				r.Dir, strings.Join(r.OtherContents, ", "))
		}
	}
	w, table := s.Out, report.CompareTable(rows)
	text := table.String
	switch {
	case o.json:
		return printJSON(w, rows)
	case o.csv:
		_, err := w.Write(report.CompareCSV(rows))
		return err
	case o.md:
		text = table.Markdown
	}
	_, err = io.WriteString(w, text())
	return err
}

// compareEqual lists runs that were trained more than once, or could be copied.
func compareEqual(s *State, o *compareOptions) error {
	groups, err := sweep.FindEqual(o.dirs)
	if err != nil {
		return missingInput(fmt.Errorf("compare: %w", err))
	}
	if o.json {
		return printJSON(s.Out, groups)
	}
	if len(groups) == 0 {
		_, err := fmt.Fprintln(s.Out, "no two runs have the same configuration")
		return err
	}
	w := newTable(s.Out)
	fmt.Fprintln(w, "hash\tseed\tstate\tweights\tfolder")
	for _, g := range groups {
		for _, r := range g.Runs {
			weights := r.Weights[:min(8, len(r.Weights))]
			textutil.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", g.Hash, r.Seed, r.State, weights, r.Dir)
		}
	}
	return w.Flush()
}

// wrapped joins words with commas, in lines of at most width characters.
func wrapped(words []string, width int) string {
	out, line := words[0], 24+len(words[0]) // 24 characters are before the list
	for _, w := range words[1:] {
		separator := ", "
		if line += 2 + len(w); line > width {
			separator, line = ",\n", len(w)
		}
		out += separator + w
	}
	return out
}
