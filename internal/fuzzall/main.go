// Command fuzzall runs every fuzz target of the project and counts.
//
//	go run ./internal/fuzzall -time 30s          each target for 30 seconds
//	go run ./internal/fuzzall -execs 10000000    ten million executions in all
//
// It prints a line for each target as it ends and a table in Markdown behind
// them: target, executions, inputs that reached new code, time, result. The exit
// code is 1 when a target failed; the input that made it fail is then in that
// package's testdata/fuzz, as go test leaves it.
//
// A number of executions is divided by cost. Equal numbers would leave the
// machine with the slowest target for days, equal times would leave that target
// a few hundred executions of millions. So each target runs for a short time
// first, which counts and gives its speed, and the rest is divided in proportion
// to the square roots of the speeds (of those below 100 a second: to the speeds).
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
	var (
		each     = flag.Duration("time", 30*time.Second, "time for each target, without -execs")
		execs    = flag.Int("execs", 0, "executions in all, over all targets")
		first    = flag.Duration("first", 10*time.Second, "with -execs: time for each target that finds its speed")
		parallel = flag.Int("parallel", 0, "fuzzing processes for a target (0 = one for each core)")
		match    = flag.String("match", "", "only targets whose package and name match this regular expression")
		write    = flag.String("write", "", "put the table into this Markdown file, between its marks")
		list     = flag.Bool("list", false, "print the targets and run none")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, options{each: *each, execs: *execs, first: *first, parallel: *parallel, match: *match, write: *write, list: *list}); err != nil {
		fmt.Fprintf(os.Stderr, "fuzzall: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	each     time.Duration
	execs    int
	first    time.Duration
	parallel int
	match    string
	write    string
	list     bool
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
			fmt.Printf("%s %s: %d executions in %v, %d new, %s\n", t, a, r.execs, r.took.Round(time.Second), r.interesting, r.verdict())
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
		return fmt.Errorf("%d executions, %d were asked for", total, o.execs)
	case o.write != "":
		return docblock.Replace(o.write, "fuzz", table)
	}
	return nil
}
