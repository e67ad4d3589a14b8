package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// result is the outcome of one target, over one or several runs.
type result struct {
	execs       int
	interesting int           // inputs that reached new code
	fuzzing     time.Duration // without the build and the inputs of earlier runs
	took        time.Duration // in total
	failure     string        // "" = passed
}

func (r *result) failed() bool { return r.failure != "" }

func (r *result) verdict() string {
	if r.failed() {
		return "FAILED: " + r.failure
	}
	return "passed"
}

func (r *result) add(s result) {
	r.execs += s.execs
	r.interesting += s.interesting
	r.fuzzing += s.fuzzing
	r.took += s.took
	r.failure = s.failure
}

func failures(rs []result) int {
	n := 0
	for _, r := range rs {
		if r.failed() {
			n++
		}
	}
	return n
}

// fuzz runs one target for amount, a time or "Nx". The failure of a target is a
// result; its output goes to standard error.
func fuzz(ctx context.Context, t target, amount string, parallel int) (result, error) {
	// Minimize an input by at most ten executions: Go's default is a minute each time, which the
	// counts leave out.
	args := []string{"test", "-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", amount, "-fuzzminimizetime", "10x"}
	if parallel > 0 {
		args = append(args, "-parallel", strconv.Itoa(parallel))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, t.pkg)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	r := parse(out.String())
	r.took = time.Since(start)
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case err != nil && lateStop(out.String()):
		// go test stopped the target during an input because its time was over, and reports a
		// failure.
	case err != nil:
		r.failure = why(out.String(), err)
		if _, werr := io.Copy(os.Stderr, &out); werr != nil {
			return r, werr
		}
	}
	return r, nil
}

// Progress lines of go test; the counts are totals.
var (
	progress = regexp.MustCompile(`(?m)^fuzz: elapsed: (\S+), execs: (\d+) \(\d+/sec\), new interesting: (\d+)`)
	baseline = regexp.MustCompile(`(?m)^fuzz: elapsed: (\S+), gathering baseline coverage: `)
)

// parse reads the counts from the last line that has them.
func parse(out string) result {
	var r result
	if all := progress.FindAllStringSubmatch(out, -1); all != nil {
		last := all[len(all)-1]
		// The expression admits only digits; a number too large for an int counts as 0.
		r.execs, _ = strconv.Atoi(last[2])
		r.interesting, _ = strconv.Atoi(last[3])
		r.fuzzing, _ = time.ParseDuration(last[1])
	}
	if all := baseline.FindAllStringSubmatch(out, -1); all != nil {
		until, _ := time.ParseDuration(all[len(all)-1][1])
		r.fuzzing = max(0, r.fuzzing-until)
	}
	return r
}

// speed is the executions per second, at least one: a target may spend all its time on inputs of
// earlier runs.
func (r *result) speed() float64 { return max(1, float64(r.execs)/max(1, r.fuzzing.Seconds())) }

func lateStop(out string) bool {
	return strings.Contains(out, "context deadline exceeded") && !strings.Contains(out, "Failing input written to")
}

// why is the first line about the failure of a target.
func why(out string, err error) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:") ||
			strings.Contains(line, "hung or terminated") {
			return line
		}
	}
	return err.Error()
}

// slow is a speed, in executions per second.
const slow = 100

// shares divides the executions missing from total among the targets that passed, in proportion to
// the square roots of their speeds. A target below slow gets the time of one at that speed.
func shares(total int, done []result) []int {
	out := make([]int, len(done))
	weights, sum, missing := make([]float64, len(done)), 0.0, total
	for i, r := range done {
		missing -= r.execs
		if !r.failed() {
			weights[i] = min(math.Sqrt(r.speed()), r.speed()/math.Sqrt(slow))
			sum += weights[i]
		}
	}
	if missing <= 0 || sum == 0 {
		return out
	}
	for i, w := range weights {
		out[i] = int(math.Ceil(float64(missing) * w / sum))
	}
	return out
}

// markdown returns the table of the results and the number of executions.
func markdown(targets []target, results []result) (table string, execs int) {
	var b strings.Builder
	fmt.Fprintln(&b, "| target | executions | new inputs kept | time | result |\n|---|---:|---:|---:|---|")
	var sum result
	for i, t := range targets {
		r := results[i]
		sum.execs += r.execs
		sum.interesting += r.interesting
		sum.took += r.took
		fmt.Fprintf(&b, "| `%s` `%s` | %d | %d | %v | %s |\n", strings.TrimPrefix(t.pkg, "grpo/"), t.name,
			r.execs, r.interesting, r.took.Round(time.Second), r.verdict())
	}
	fmt.Fprintf(&b, "| %d targets | %d | %d | %v | %d failed |\n", len(targets),
		sum.execs, sum.interesting, sum.took.Round(time.Second), failures(results))
	return b.String(), sum.execs
}
