// Command fuzzall runs every fuzz target of the project and counts executions.
//
//	go run ./internal/fuzzall -time 30s          each target for 30 seconds
//	go run ./internal/fuzzall -execs 10000000    ten million executions in total
//
// It prints a line for each target when it ends, and then a table in Markdown:
// target, executions, inputs that reached new code, time, result. The exit code is 1
// if a target failed; the failing input is then in that package's testdata/fuzz.
//
// -execs divides the executions by cost. With equal numbers the slowest target would
// take days; with equal times it would get a few hundred executions of millions. So
// each target first runs for a short time, which counts and measures its speed, and
// the rest is divided in proportion to the square roots of the speeds (below 100 per
// second: to the speeds).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"

	"grpo/internal/docblock"
)

func main() {
	var o options
	flag.DurationVar(&o.each, "time", 30*time.Second, "time for each target, without -execs")
	flag.IntVar(&o.execs, "execs", 0, "executions in total, over all targets")
	flag.DurationVar(&o.first, "first", 10*time.Second, "with -execs: time for each target that measures its speed")
	flag.IntVar(&o.parallel, "parallel", 0, "fuzzing processes for a target (0 = one for each core)")
	flag.StringVar(&o.match, "match", "", "only targets whose package and name match this regular expression")
	flag.StringVar(&o.write, "write", "", "put the table into this Markdown file, between its markers")
	flag.BoolVar(&o.list, "list", false, "print the targets and run none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "fuzzall: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	each, first     time.Duration
	execs, parallel int
	match, write    string
	list            bool
}

func run(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.match)
	if err != nil {
		return fmt.Errorf("-match: %w", err)
	}
	targets, err := findTargets(ctx, only)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return fmt.Errorf("no fuzz target matches %q", o.match)
	}
	if o.list {
		for _, t := range targets {
			fmt.Println(t)
		}
		return nil
	}
	results := make([]result, len(targets))
	pass := func(amount func(i int) string) error {
		for i, t := range targets {
			a := amount(i)
			if a == "" || results[i].failed() {
				continue
			}
			r, err := fuzz(ctx, t, a, o.parallel)
			if err != nil {
				return err
			}
			results[i].add(r)
			fmt.Printf("%s %s: %d executions in %v, %d new, %s\n",
				t, a, r.execs, r.took.Round(time.Second), r.interesting, r.verdict())
		}
		return nil
	}
	if o.execs == 0 {
		err = pass(func(int) string { return o.each.String() })
	} else if err = pass(func(int) string { return o.first.String() }); err == nil {
		rest := shares(o.execs, results)
		err = pass(func(i int) string {
			if rest[i] == 0 {
				return ""
			}
			return fmt.Sprintf("%dx", rest[i])
		})
	}
	table, total := markdown(targets, results)
	fmt.Printf("\n%s", table)
	switch failed := failures(results); {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d targets failed", failed, len(targets))
	case total < o.execs:
		return fmt.Errorf("%d executions, %d were requested", total, o.execs)
	case o.write != "":
		return docblock.Replace(o.write, "fuzz", table)
	}
	return nil
}
