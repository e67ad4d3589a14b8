package reward

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"grpo/internal/expect"
)

// benchPython computes for some seconds for each completion.
const benchPython = `
import json, sys, time
for line in sys.stdin:
    b = json.loads(line)
    for c in b["completions"]:
        end = time.process_time() + float(sys.argv[1])
        while time.process_time() < end: pass
    print(json.dumps({"id": b["id"], "rewards": [float(c["right"]) for c in b["completions"]]}), flush=True)
`

// BenchmarkCommand: what a batch of the default run's size takes, by the work of the checker for a completion and by its
// number of processes. docs/rewards.md has its numbers.
func BenchmarkCommand(b *testing.B) {
	script := filepath.Join(b.TempDir(), "check.py")
	expect.OK(b, os.WriteFile(script, []byte(benchPython), 0o600))
	batch := benchBatch()
	for _, checker := range []struct {
		name    string
		command []string
	}{
		{"go-none", []string{os.Args[0], "serve", "plain"}},
		{"go-waits-1ms", []string{os.Args[0], "serve", "wait"}},
		{"python-none", []string{"python3", script, "0"}},
		{"python-computes-1ms", []string{"python3", script, "0.001"}},
	} {
		for _, workers := range []int{1, 2, 16} {
			b.Run(fmt.Sprintf("%s/workers=%d", checker.name, workers), func(b *testing.B) {
				s := Spec{Name: "check", Command: checker.command, Workers: workers, Timeout: time.Minute}
				f, err := Open(b.Context(), s, nil)
				if err != nil {
					b.Skip(err)
				}
				defer f.Close()
				_, err = f.Score(batch) // starts the processes
				expect.OK(b, err)
				least := time.Hour
				for b.Loop() {
					start := time.Now()
					_, err := f.Score(batch)
					expect.OK(b, err)
					least = min(least, time.Since(start))
				}
				b.ReportMetric(float64(least.Microseconds())/1000, "least-ms")
			})
		}
	}
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			_, err := request{Version: Version, Completions: batch.Completions}.encode()
			expect.OK(b, err)
		}
	})
}

// benchBatch has the size of a batch of the default run: 256 completions of 24 tokens.
func benchBatch() Batch {
	batch := Batch{Step: 1, MaxTokens: 64, GroupSize: 8}
	for i := range 256 {
		question := fmt.Sprintf("Tom has %d pens and gets 5 more pens. How many pens does Tom have now?", i/8)
		batch.Completions = append(batch.Completions, Completion{
			Prompt: question + "\n", Completion: "7+5=<<7+5=" + strconv.Itoa(i) + ">>12\n#### 12", Answer: "12",
			Tokens: make([]int, 24), Ended: true, Right: true, Formatted: true,
			Problem: Problem{ID: "gen-add-00123", Question: question, Solution: "7+5=<<7+5=12>>12\n#### 12", Type: "add"},
		})
	}
	return batch
}
