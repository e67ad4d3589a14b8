//go:build unix

// Command faulttest breaks runs of the real program and checks what remains.
//
//	go run ./internal/faulttest              the long version: 200 kills
//	go run ./internal/faulttest -kills 10    the same faults, fewer tries of each
//
// It builds ./grpo, makes one small reference run, and then repeats it under faults: killed at
// random moments, on a full disk, in a folder that disappears, under resource limits, next to a
// second process, with damaged files. Each fault states the expected outcome. An interrupted run is
// continued with the same command until it ends, and the finished folder must be bit-identical to
// that of the reference run: configuration, metrics, evaluations, samples, result and weights,
// except for times.
//
// The random moments come from a stream with a printed seed. A process's state at such a moment is
// not repeatable, so a failure keeps its folder. The output is a line for each fault and a table in
// Markdown, which -write puts into a document. The exit code is 1 if an outcome was unexpected.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"grpo/internal/docblock"
)

// fault is one kind of fault. try returns what happened; a [skip] is the reason for
// not trying it.
type fault struct {
	name    string
	promise string // expected outcome
	try     func(l *lab) (string, error)
}

type skip string

func (s skip) Error() string { return string(s) }

// faults in the order of the table.
func faults() []fault {
	const (
		equal   = "bit-identical"
		refused = "an error with the file's name, "
		later   = refused + "now or when the file is read, or " + equal
		ends    = "succeeds or a clear error, exit 1; without the limit " + equal
		clear   = "a clear error, exit 1; "
	)
	return []fault{
		{"kill -9 at a random moment of a training run", "the same command finishes, " + equal, killTraining},
		{"kill -9 at a random moment of a sweep", "the same command finishes, " + equal, killSweep},
		{"SIGTERM at a random moment", "the update is finished, exit 75 (130 if nothing was saved); continues, " + equal, terminate},
		{"SIGTERM and SIGINT within 20 ms", "one interruption: the same as above", terminateTwice},
		{"SIGSTOP for a while, SIGCONT", "continues normally, " + equal, stopAndGo},
		{"disk full from the start", clear + "with room again " + equal, diskFull},
		{"disk filled while running", clear + "with room again " + equal, diskFills},
		{"no inodes left", clear + "with some again " + equal, inodesFull},
		{"read-only folder", clear + "writable again " + equal, readOnly},
		{"folder moved away while running", clear + "the moved folder continues, " + equal, folderMoved},
		{"folder removed while running", clear + "the same command starts over, " + equal, folderRemoved},
		{"file descriptor limit", ends, fewFiles},
		{"file size limit", ends, smallFiles},
		{"address space limit", "succeeds or reports that memory is exhausted; without the limit " + equal, smallMemory},
		{"GOMEMLIMIT below the memory in use", "slower, " + equal, softMemory},
		{"two processes on one folder", "one writes, the other is refused or shows the result; " + equal, twoProcesses},
		{"a byte flipped in a file of an unfinished run", later, flipUnfinished},
		{"a file of an unfinished run cut short", later, cutUnfinished},
		{"a byte flipped in a file of a finished run", refused + "or the original content is shown", flipFinished},
		{"a file of a finished run cut short", refused + "or the original content is shown", cutFinished},
		{"weights that are not finite", "the run is diverged, recorded with the step, exit 0", diverge},
		{"clock jumps", "no effect except on times",
			notHere("it needs its own clock: `go test -run TestClockJumps ./pkg/train` passes one in")},
		{"a hanging child of a sweep", "found and reported",
			notHere("the timeout is five minutes: `go test -run Hang ./pkg/sweep` has a shorter one, and a real child that stops")},
	}
}

func notHere(why skip) func(*lab) (string, error) {
	return func(*lab) (string, error) { return "", why }
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == limitedCommand {
		fmt.Fprintf(os.Stderr, "faulttest: %v\n", runLimited(os.Args[2:]))
		os.Exit(125)
	}
	var o options
	flag.IntVar(&o.kills, "kills", 200, "kills of training runs; the tries of the other faults scale with it")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the random moments")
	flag.StringVar(&o.binary, "grpo", "", "binary to test (default: build the one of this module)")
	flag.StringVar(&o.match, "match", "", "only faults whose name matches this regular expression")
	flag.StringVar(&o.write, "write", "", "put the table into this Markdown file, between its markers")
	flag.BoolVar(&o.keep, "keep", false, "keep the folders")
	flag.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "faults tried at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "faulttest: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	kills, jobs          int
	seed                 uint64
	binary, match, write string
	keep                 bool
}

func run(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.match)
	if err != nil {
		return fmt.Errorf("-match: %w", err)
	}
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("%s; seed %d; the reference run takes %v; folders in %s\n",
		l.version, o.seed, l.took.Round(time.Millisecond), l.work)
	var rows []row
	for _, f := range faults() {
		if only.MatchString(f.name) {
			rows = append(rows, row{fault: f})
		}
	}
	tryAll(l, rows)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := 0
	for _, r := range rows {
		if r.verdict == "FAILED" {
			failed++
		}
	}
	table := markdown(l, rows)
	fmt.Printf("\n%s", table)
	if o.write != "" {
		if err := docblock.Replace(o.write, "faults", table); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d expectations were not met; the folders are kept in %s", failed, len(rows), l.work)
	}
	if !o.keep {
		return os.RemoveAll(l.work)
	}
	return nil
}

// row is a fault with its outcome.
type row struct {
	fault
	verdict, text string
}

// tryAll tries the faults, several at a time, and prints a line for each.
func tryAll(l *lab, rows []row) {
	next := make(chan *row)
	var print sync.Mutex
	var all sync.WaitGroup
	for range max(1, l.options.jobs) {
		all.Go(func() {
			for r := range next {
				start := time.Now()
				text, err := r.try(l.at(r.name))
				var why skip
				switch {
				case errors.As(err, &why):
					r.verdict, r.text = "skipped", string(why)
				case err != nil:
					r.verdict, r.text = "FAILED", strings.ReplaceAll(err.Error(), "\n", " / ")
				default:
					r.verdict, r.text = "passed", text
				}
				print.Lock()
				fmt.Printf("%-8s %s: %s (%v)\n", r.verdict, r.name, r.text, time.Since(start).Round(100*time.Millisecond))
				print.Unlock()
			}
		})
	}
	for i := range rows {
		next <- &rows[i]
	}
	close(next)
	all.Wait()
}

// markdown is the table of the outcomes.
func markdown(l *lab, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`go run ./internal/faulttest -kills %d -seed %d` on %s/%s with %d cores, Go %s:\n\n", l.options.kills,
		l.options.seed, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), strings.TrimPrefix(runtime.Version(), "go"))
	b.WriteString("| fault | expected | outcome | |\n|---|---|---|---|\n")
	clean := strings.NewReplacer("|", `\|`, l.work, "FOLDER")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name, r.promise, clean.Replace(r.text), r.verdict)
	}
	return b.String()
}
