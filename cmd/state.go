package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"grpo/internal/process"
	"grpo/internal/sysdisk"
	"grpo/internal/sysmem"
	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep/launch"
)

// State is the part of the process that commands use. Tests have their own.
//
// Standard output has only results, so that it can be piped; progress and logs go to
// standard error. If that is not a terminal, or NO_COLOR is set, nothing is redrawn
// or colored, and lines report the progress. An error is one line that starts with the
// program's name and has what was attempted, on what, why it failed and how to fix it.
type State struct {
	Args, Env []string
	In        io.Reader
	Out, Err  io.Writer
	Redraw    bool // standard error is a terminal that a bar may redraw
	Terminal  bool // standard output is a terminal
	Now       func() time.Time
	Every     func(d time.Duration, f func()) (stop func()) // calls f each d, on another goroutine; nil = never
	Host      func() (string, error)
	Memory    func() int64                               // available to runs, in bytes; nil or 0 = unknown
	Disk      func(dir string) (bytes int64, known bool) // free below a folder; nil = unknown
	RunF      func(options any) error                    // gets the options instead of the command's function
	LimitHeap func(bytes int64)                          // sets the garbage collector's soft limit; nil = don't
}

func processState() *State {
	return &State{
		Args: os.Args, Env: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Redraw:   term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Terminal: term.IsTerminal(int(os.Stdout.Fd())),
		Now:      time.Now, Every: every, Host: os.Hostname,
		Memory: systemMemory, Disk: sysdisk.Free, LimitHeap: limitHeap,
	}
}

// every calls f each d until stop is called.
func every(d time.Duration, f func()) (stop func()) {
	tick, ended := time.NewTicker(d), make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
				f()
			case <-ended:
				tick.Stop()
				return
			}
		}
	}()
	return func() { close(ended) }
}

// Main runs the process and returns its exit code.
func Main() int {
	s := processState()
	var more []os.Signal
	if len(s.Args) > 1 && s.Args[1] == "task" && !slices.Contains(s.Args, "--supervised") {
		more = launch.TaskSignals(s.Env)
	}
	ctx, stop := interruptible(context.Background(), more)
	defer stop()
	return Run(ctx, s)
}

// oneRequest is the time after the first signal in which others belong to the same
// request to stop: timeout(1) signals the process and then its group, a closing
// terminal and its shell both signal.
const oneRequest = 500 * time.Millisecond

// interruptible ends the context at the first SIGINT, SIGTERM or SIGHUP, so that a
// run can finish its step and save. After oneRequest a second signal ends the process
// at once. SIGHUP stays ignored under nohup(1).
//
// A job of a cluster gets more signals, and none ends it at once: the scheduler may send
// two, and kills what is left after them.
func interruptible(parent context.Context, more []os.Signal) (context.Context, func()) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(parent, append(signals, more...)...)
	if more != nil {
		return ctx, stop
	}
	ended := make(chan struct{})
	go func() {
		<-ctx.Done()
		select {
		case <-ended: // not a signal: a process's first timer needs a free file descriptor
		default:
			time.Sleep(oneRequest)
			stop()
		}
	}()
	return ctx, func() {
		close(ended)
		stop()
	}
}

// These variables have the available memory and disk space, or "off" for no check.
const memoryEnv, diskEnv = "GRPO_MEMORY", "GRPO_DISK"

// amountSetting reads such a variable; without it, or with "off", the amount is 0.
func amountSetting(env []string, name string) (bytes int64, set bool, err error) {
	text := process.Getenv(env, name)
	if text == "" {
		return 0, false, nil
	}
	if bytes, err = parseAmount(text); err != nil {
		return 0, false, fmt.Errorf("%w: %s=%s: %w", config.ErrConfig, name, text, err)
	}
	return bytes, true, nil
}

// parseAmount reads "off" (0), or an amount such as 800MiB, 16GB or 2e9.
func parseAmount(text string) (int64, error) {
	if text == "off" {
		return 0, nil
	}
	factor := 1.0
	for _, u := range []struct {
		unit   string
		factor float64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	} {
		if number, ok := strings.CutSuffix(text, u.unit); ok {
			text, factor = strings.TrimSpace(number), u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n*factor >= 1 && n*factor < math.MaxInt64) {
		return 0, errors.New("give an amount such as 800MiB or 16GB, or \"off\" for no check")
	}
	return int64(n * factor), nil
}

// systemMemory leaves a tenth of the system's memory to other programs and to
// uncollected garbage.
func systemMemory() int64 { return sysmem.Available() / 10 * 9 }

// available is the memory available to runs; 0 = unknown, or not to be checked.
func (s *State) available() int64 {
	// An error was reported before the command started.
	if n, set, _ := amountSetting(s.Env, memoryEnv); set || s.Memory == nil {
		return n
	}
	return s.Memory()
}

// checkMemory refuses a run that does not fit into the memory, and limits the heap to
// the estimate: by default garbage may grow to the size of the memory in use.
func (s *State) checkMemory(m budget.Memory) error {
	available := s.available()
	if err := m.Fits(available); err != nil {
		return err
	}
	if available > 0 && s.LimitHeap != nil {
		total := m.Total()
		s.LimitHeap(int64(total + max(total/10, 64<<20)))
	}
	return nil
}

// checkDisk refuses to write more below dir than its file system has room for.
func (s *State) checkDisk(dir string, bytes float64) error {
	free, known, _ := amountSetting(s.Env, diskEnv)
	switch {
	case known && free == 0: // off
		return nil
	case !known && s.Disk != nil:
		free, known = s.Disk(dir)
	}
	if !known || bytes <= float64(free) {
		return nil
	}
	return fmt.Errorf("not enough disk space: %s needs up to %s, and %s are free: %w; set %s=off to skip this check",
		textutil.Printable(dir, 0), budget.Bytes(bytes), budget.Bytes(float64(free)),
		rundir.Explain(syscall.ENOSPC), diskEnv)
}

// limitHeap sets the garbage collector's limit, unless GOMEMLIMIT has set it.
func limitHeap(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

// printJSON writes v indented; a number that is not finite becomes null.
func printJSON(w io.Writer, v any) error {
	data, err := rundir.Marshal(v)
	if err != nil {
		return err
	}
	printed(v, data)
	return writeJSON(w, data)
}

// writeJSON writes a document indented.
func writeJSON(w io.Writer, data []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// table collects lines whose cells are separated by tabs. A line without a tab ends a table.
type table struct {
	bytes.Buffer
	out io.Writer
}

func newTable(out io.Writer) *table { return &table{out: out} }

// Flush writes the lines with aligned columns.
func (t *table) Flush() error {
	var b strings.Builder
	var rows [][]string
	for line := range strings.Lines(t.String()) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) > 1 {
			rows = append(rows, row)
			continue
		}
		writeAligned(&b, rows)
		b.WriteString(line)
		rows = nil
	}
	writeAligned(&b, rows)
	t.Reset()
	_, err := io.WriteString(t.out, b.String())
	return err
}

func writeAligned(b *strings.Builder, rows [][]string) {
	for _, line := range textutil.Align("l", rows) {
		b.WriteString(line + "\n")
	}
}

// wrote names the files written.
func wrote(s *State, paths ...string) {
	for _, p := range paths {
		textutil.Fprintf(s.Err, "wrote %s\n", filepath.ToSlash(p))
	}
}
