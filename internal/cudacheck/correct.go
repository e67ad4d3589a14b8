package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// onCard makes the tests run on the GPU.
var onCard = []string{"GRPO_TEST_GPU=1"}

// golden runs the test binaries on the card.
func golden(c *check) (*table, error) {
	t := newTable("tests", "passed", "failed", "skipped")
	reached := regexp.MustCompile(`(?m)^\s+\S+: reached: (.*)$`)
	const decoders = "^TestGPU(Golden)?Decoder"
	for _, tests := range []struct{ what, binary, run, skip string }{
		{"kernels", "kernels.test", ".", "^$"}, {"TinyLM", "gpu.test", "^TestGPU", decoders},
		{"decoders", "gpu.test", decoders, "^$"}, {"runs", "train.test", "^TestGPU", "^$"},
	} {
		if !exists(filepath.Join(c.bin, tests.binary)) {
			t.fails("%s is not in %s", tests.binary, c.bin)
			continue
		}
		out, err := c.program(onCard, tests.binary, "-test.v", "-test.run", tests.run, "-test.skip", tests.skip)
		count := func(word string) int { return bytes.Count(out, []byte("--- "+word+":")) }
		t.row(tests.what, count("PASS"), count("FAIL"), count("SKIP"))
		switch {
		case err != nil:
			t.fails("%s: %s; each in a process of its own: %s", tests.what, failures(out, err),
				c.alone(tests.binary, tests.run, tests.skip))
		case count("PASS") == 0:
			t.fails("%s: no test ran", tests.what)
		}
		if all := reached.FindAllSubmatch(out, -1); len(all) > 0 {
			t.note("PyTorch's file, reached in the last of %d runs: %s.", len(all), all[len(all)-1][1])
		}
	}
	return t, nil
}

// alone runs each test of a binary in a process of its own, and names those that fail: after a fault
// on the card all tests of its process fail, and a test that hangs ends the others.
func (c *check) alone(binary, run, skip string) string {
	defer func(limit time.Duration) { c.limit = limit }(c.limit)
	c.limit = min(c.limit, 2*time.Minute)
	list, err := c.program(onCard, binary, "-test.list", run)
	if err != nil {
		return err.Error()
	}
	var failed []string
	for name := range strings.FieldsSeq(string(list)) {
		if out, err := c.program(onCard, binary, "-test.v", "-test.run", "^"+name+"$", "-test.skip", skip); err != nil {
			failed = append(failed, failures(out, err))
		}
	}
	if len(failed) == 0 {
		return "none fails"
	}
	return strings.Join(failed, ", ")
}

// failures names the tests that failed.
func failures(out []byte, err error) string {
	var names []string
	for _, m := range regexp.MustCompile(`--- FAIL: (\S+)`).FindAllSubmatch(out, -1) {
		names = append(names, string(m[1]))
	}
	if len(names) == 0 {
		return err.Error()
	}
	return strings.Join(names, ", ")
}

// runOf is the part of the output of `grpo train --json` that is used here.
type runOf struct {
	Result struct {
		Status  string  `json:"status"`
		Initial evalOf  `json:"initial"`
		Final   evalOf  `json:"final"`
		Weights string  `json:"weights_sha256"`
		WallS   float64 `json:"wall_s"`
	} `json:"result"`
}

type evalOf struct {
	Sampled struct {
		AnswerReward float64 `json:"answer_reward"`
	} `json:"sampled"`
}

func (c *check) train(dir string, args ...string) (*runOf, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	r := &runOf{}
	return r, c.jsonOf(r, "grpo", append([]string{"train", "--json", "--quiet", "--out", dir}, args...)...)
}

// bits makes the same run twice, in two processes.
func bits(c *check) (*table, error) {
	t := newTable("run", "weights after it", "metrics without times")
	for _, p := range []string{"float32", "tf32", "bf16"} {
		var weights, metrics []string
		for i := range 2 {
			dir := filepath.Join(c.out, fmt.Sprintf("bits-%s-%d", p, i))
			r, err := c.train(dir, "--device", "cuda", "--set", "model.precision="+p, "--steps", "30")
			if err != nil {
				return t, err
			}
			lines, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
			if err != nil {
				return t, err
			}
			weights = append(weights, r.Result.Weights)
			metrics = append(metrics, string(regexp.MustCompile(`"time":\{[^}]*\}`).ReplaceAll(lines, nil)))
			_ = os.RemoveAll(dir)
		}
		same := func(x []string) string {
			if x[0] == x[1] {
				return "the same bits"
			}
			t.fails("%s: two runs differ", p)
			return "differ"
		}
		t.row("default experiment, 30 steps, seed 1, "+p, same(weights), same(metrics))
	}
	return t, nil
}

// experiment is the default run with four seeds, on the GPU and on the CPU.
func experiment(c *check) (*table, error) {
	t := newTable("seed", "before", "after", "seconds", "the CPU's after")
	var before, after, cpu float64
	const seeds = 4
	for seed := 1; seed <= seeds; seed++ {
		dir := filepath.Join(c.out, fmt.Sprintf("experiment-%d", seed))
		r, err := c.train(dir, "--device", "cuda", "--seed", fmt.Sprint(seed))
		if err != nil {
			return t, err
		}
		_ = os.RemoveAll(dir)
		other, err := c.train(dir, "--seed", fmt.Sprint(seed))
		if err != nil {
			return t, err
		}
		_ = os.RemoveAll(dir)
		a, b := r.Result.Initial.Sampled.AnswerReward, r.Result.Final.Sampled.AnswerReward
		before, after, cpu = before+a/seeds, after+b/seeds, cpu+other.Result.Final.Sampled.AnswerReward/seeds
		t.row(seed, fmt.Sprintf("%.3f", a), fmt.Sprintf("%.3f", b), fmt.Sprintf("%.1f", r.Result.WallS),
			fmt.Sprintf("%.3f", other.Result.Final.Sampled.AnswerReward))
		if r.Result.Status != "done" {
			t.fails("seed %d ended as %s", seed, r.Result.Status)
		}
	}
	t.row("mean", fmt.Sprintf("%.3f", before), fmt.Sprintf("%.3f", after), "", fmt.Sprintf("%.3f", cpu))
	t.note("Validation answer reward, sampled; 200 steps of the default experiment.")
	if before >= 0.25 || after < 0.78 {
		t.fails("the mean goes from %.3f to %.3f, not from below 0.25 to at least 0.78", before, after)
	}
	return t, nil
}

// leak checks that steps of one size allocate no memory after the warm-up.
func leak(c *check) (*table, error) {
	t := newTable("size", "steps", "memory allocated, MiB", "requests to the driver",
		"change of the card's free memory, MiB")
	for _, s := range []struct{ hidden, completions, steps int }{{64, 256, 1000}, {512, 64, 200}} {
		r, err := c.bench("cuda", "float32", s.hidden, s.completions, 16, s.steps)
		if err != nil {
			return t, err
		}
		change := 0
		if len(r.DeviceFree) == 2 {
			change = r.DeviceFree[1] - r.DeviceFree[0]
		}
		mib := func(bytes int) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }
		t.row(fmt.Sprintf("H = %d, %d completions of 16 tokens", s.hidden, s.completions), s.steps,
			mib(r.DeviceBytes), r.DeviceRequests, mib(change))
		if r.DeviceRequests != 0 {
			t.fails("H = %d: %d requests for memory while measuring", s.hidden, r.DeviceRequests)
		}
	}
	return t, nil
}

// sanitizer runs the smallest tests under compute-sanitizer.
func sanitizer(c *check) (*table, error) {
	t := newTable("tool", "tests", "finding")
	tool := "compute-sanitizer"
	if p := "/usr/local/cuda/bin/compute-sanitizer"; exists(p) {
		tool = p
	}
	for _, mode := range []string{"memcheck", "racecheck"} {
		for _, tests := range []struct{ network, what, run string }{
			{"TinyLM", "golden, gradients, AdamW, sampler",
				"^TestGPU(GoldenTorch|SamplesTheCPUsTokens|GradientsAreTheCPUs|AdamW)$"},
			{"Llama", "golden, sampler", "^TestGPU(GoldenDecoder|DecoderSamplesTheCPUsTokens)$/^(llama-tied-1|llama)$"},
		} {
			out, err := c.program(onCard, tool, "--tool", mode, "--error-exitcode", "9",
				filepath.Join(c.bin, "gpu.test"), "-test.run", tests.run)
			summary := regexp.MustCompile(`(?m)^=+ (ERROR|RACECHECK) SUMMARY: .*$`).Find(out)
			t.row(mode, tests.network+": "+tests.what, strings.TrimLeft(string(summary), "= "))
			if err != nil || summary == nil {
				t.fails("%s: %v", mode, err)
			}
		}
	}
	return t, nil
}
