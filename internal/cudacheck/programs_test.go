package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
)

// fakes is a check with shell scripts in place of the programs.
func fakes(t *testing.T, scripts map[string]string) *check {
	t.Helper()
	c := &check{bin: t.TempDir(), out: t.TempDir(), limit: time.Minute, libs: []string{}}
	expect.OK(t, os.Mkdir(filepath.Join(c.bin, "tree"), 0o755))
	for name, text := range scripts {
		expect.OK(t, os.WriteFile(filepath.Join(c.bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	c.python = filepath.Join(c.bin, "python")
	return c
}

func written(t *testing.T, c *check, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.out, name))
	expect.OK(t, err)
	return string(data)
}

// A program that hangs is ended, and what it printed before is in the log.
func TestHangingProgramIsEnded(t *testing.T) {
	c := fakes(t, map[string]string{"grpo": "echo began; exec sleep 100"})
	c.limit = 500 * time.Millisecond
	begin := time.Now()
	err := c.do(part{"leak", "", leak})
	if err == nil || !strings.Contains(err.Error(), "ended after 0.5 s") || time.Since(begin) > 30*time.Second {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	if log := written(t, c, "leak.log"); !strings.Contains(log, "bench step") || !strings.Contains(log, "began") {
		t.Errorf("the log is %q", log)
	}
}

// After the time of all parts no program runs, and the table has what ran before.
func TestTotalTime(t *testing.T) {
	c := fakes(t, map[string]string{"grpo": `case "$*" in *"--hidden 512 "*) exec sleep 100 ;; *) echo '{"median_step_s": 0.5, "device": "a card, libraries"}' ;; esac`})
	c.until = time.Now().Add(2 * time.Second)
	begin := time.Now()
	for range 2 {
		if err := c.do(part{"leak", "", leak}); err == nil || time.Since(begin) > 30*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	}
	if got := written(t, c, "leak.json"); !strings.Contains(got, "H = 64") || strings.Contains(got, "H = 512") || !strings.Contains(got, "ended early") {
		t.Errorf("the table is %s", got)
	}
}

// A part keeps what it measured before a program failed, also without the name of the card.
func TestPartKeepsWhatRan(t *testing.T) {
	c := fakes(t, map[string]string{"grpo": `case "$*" in *"--hidden 64 "*) echo '{"median_step_s": 0.5}' ;; *) echo broken >&2; exit 3 ;; esac`})
	if err := c.do(part{"leak", "", leak}); !errors.Is(err, errHolds) {
		t.Errorf("error %v", err)
	}
	if got := written(t, c, "leak.json"); !strings.Contains(got, "H = 64") || !strings.Contains(got, "ended early") || !strings.Contains(got, "broken") {
		t.Errorf("the table is %s", got)
	}
	if err := c.do(part{"bits", "", bits}); err == nil || errors.Is(err, errHolds) || exists(filepath.Join(c.out, "bits.json")) {
		t.Errorf("a part that measured nothing: %v", err)
	}
}

// Without PyTorch a comparison has grpo's times.
func TestStepWithoutPyTorch(t *testing.T) {
	c := fakes(t, map[string]string{
		"grpo":   `echo '{"median_step_s": 0.5, "median_s": {"rollout": 0.2, "update": 0.3}, "device": "a card, libraries"}'`,
		"python": "echo 'No module named torch' >&2; exit 1",
	})
	if err := c.do(part{"step64", "", func(c *check) (*table, error) { return step(c, 64) }}); !errors.Is(err, errHolds) {
		t.Errorf("error %v", err)
	}
	got := written(t, c, "step64.json")
	if strings.Count(got, "200.00 + 300.00 = 500.00") != 2 || !strings.Contains(got, "No module named torch") || !strings.Contains(got, `"a card"`) {
		t.Errorf("the table is %s", got)
	}
}

// After a crash of a test binary the tests run one by one: only the first of these two is at fault.
func TestFailingTestsRunAlone(t *testing.T) {
	c := fakes(t, map[string]string{
		"grpo": `echo '{"device": "a card, libraries"}'`,
		"gpu.test": `case "$*" in
*-test.list*) echo TestGPUA; echo TestGPUB ;;
*'^TestGPUB$'*) echo '--- PASS: TestGPUB' ;;
*'^TestGPUA$'*) echo '--- FAIL: TestGPUA'; exit 1 ;;
*) echo '--- FAIL: TestGPUA'; echo '--- FAIL: TestGPUB'; exit 1 ;;
esac`})
	if err := c.do(part{"golden", "", golden}); !errors.Is(err, errHolds) {
		t.Errorf("error %v", err)
	}
	if got := written(t, c, "golden.json"); !strings.Contains(got, "TinyLM: TestGPUA, TestGPUB; each in a process of its own: TestGPUA\"") {
		t.Errorf("the table is %s", got)
	}
}
