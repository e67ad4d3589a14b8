package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
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
	sides  sideFlags
}

func newCompare(s *State) *cobra.Command {
	o := &compareOptions{}
	c := &cobra.Command{
		Use:   "compare DIR...",
		Short: "Compare runs and arms of sweeps in one table; test two of them against each other",
		Long: `Compare reads the folders of runs, sweeps and studies and prints one table with a
row per run and per arm of a sweep. The rows of different folders can differ in
anything, so the table makes no claim.

--against tests two configurations, as a verdict does: runs are paired by their seed,
and the paired t test says which is better, that they are the same within --margin, or
by how much they differ at most. A side is the folder of one sweep (--arm and
--against-arm select an arm of several), or the folders of runs that differ in their
seed alone. Both sides must be evaluated on the same problems in the same way; the
other keys in which they differ are listed. Two folders, each with the seeds of one
configuration, are also tested without the flag, below the table.

Columns to sort by: ` + wrapped(report.CompareColumns(), 80) + `.`,
		Example: `  grpo compare results/sweep-1a2b3c4d
  grpo compare results/train-* --sort-by final --top 5
  grpo compare results/sweep-1a2b3c4d results/ablate-5e6f7a8b --sort-by -entropy --md
  grpo compare results/train-* --csv > runs.csv
  grpo compare results/* --equal
  grpo compare results/sweep-1a2b3c4d results/sweep-5e6f7a8b
  grpo compare new/seed=* --against old/seed=1 --against old/seed=2 --margin 3 --json
  grpo compare results/ablate-5e6f7a8b --arm dapo --against results/sweep-1a2b3c4d`,
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
			if len(o.sides.against) > 0 {
				if o.csv || o.md || o.equal || o.top > 0 || o.sortBy != "" {
					return usagef(cmd, "--against prints a test: leave out the flags of the table")
				}
				return run(cmd, s, o, runVersus)
			}
			if name := changed(cmd, "arm", "against-arm", "margin"); name != "" {
				return usagef(cmd, "--%s is for a test: add --against", name)
			}
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
	o.sides.add(c, "test the runs or the sweep against those in this `folder` (repeat for each run)")
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
	if _, err := io.WriteString(w, text()); err != nil || o.sortBy != "" || o.top > 0 || o.md {
		return err
	}
	return testTwo(s, o.dirs)
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

// samplesOptions are the inputs of `grpo samples`.
type samplesOptions struct {
	dir    string
	filter report.SampleFilter
	json   bool
}

func newSamples(s *State) *cobra.Command {
	o := &samplesOptions{}
	var greedy bool
	step := -1
	c := &cobra.Command{
		Use:   "samples RUN",
		Short: "Show how a run's completions of the same problems changed over training",
		Long: `Samples shows the completions that a run kept (samples.jsonl): for each problem the
prompt once, then the completion after each step, with its reward, its length in
tokens, whether the answer is right, and if not, why: the limit of tokens cut the
completion, it has no final answer of the expected form, or the answer is another.

Each evaluation keeps the first problems of its split (eval.save_samples, 8 by
default), so they are the same ones at every step. With --split train they are the
first completions of the step's rollout batch, of other problems at each step.`,
		Example: `  grpo samples results/train-1a2b3c4d
  grpo samples results/train-1a2b3c4d --changed --greedy
  grpo samples results/train-1a2b3c4d --step 100 --wrong
  grpo samples results/sweep-1a2b3c4d/runs/lr-0.001_seed-1-9f2c1ab4 --json`,
		Args: takes("the folder of a run", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir, o.filter.Decoding = args[0], rundir.DecodingSampled
			if greedy {
				o.filter.Decoding = rundir.DecodingGreedy
			}
			if cmd.Flags().Changed("step") {
				o.filter.Step = &step
			}
			switch {
			case step < 0 && o.filter.Step != nil:
				return usagef(cmd, "--step %d: steps are 0 (before training) and more", step)
			case o.filter.Step != nil && o.filter.Changed:
				return usagef(cmd, "--changed compares steps: leave out --step")
			}
			return run(cmd, s, o, runSamples)
		},
	}
	f := c.Flags()
	f.IntVar(&step, "step", -1, "only the completions after this `step` (default all)")
	f.Lookup("step").DefValue = "0" // not shown
	f.BoolVar(&o.filter.Wrong, "wrong", false, "only problems that are wrong after their last step")
	f.BoolVar(&o.filter.Changed, "changed", false, "only problems that were right at one step and wrong at another")
	f.StringVar(&o.filter.Split, "split", rundir.SplitVal,
		"the `set` of problems: val, val_final, unseen, test, train or a set of eval.sets")
	complete(c, "split", func() []string { return append([]string{rundir.SplitFinal}, evalSplits...) },
		cobra.ShellCompDirectiveNoFileComp)
	f.BoolVar(&greedy, "greedy", false, "completions of greedy decoding instead of sampled ones")
	addJSON(c, &o.json)
	return c
}

func runSamples(_ context.Context, s *State, o *samplesOptions) error {
	if sweepdir.IsSweep(o.dir) || sweepdir.IsStudy(o.dir) {
		return config.Invalid(fmt.Errorf("show samples: %s has several runs: give the folder of one, below its %s",
			o.dir, sweepdir.RunsDir))
	}
	r, err := rundir.Open(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return missingInput(fmt.Errorf("%w (samples takes the folder of a run)", err))
	}
	if err != nil {
		return err
	}
	problems, err := report.SampledProblems(r, o.filter)
	if err != nil {
		return fmt.Errorf("show samples: %s: %w", o.dir, err)
	}
	if o.json {
		return printJSON(s.Out, problems)
	}
	return report.WriteSamples(s.Out, problems)
}
