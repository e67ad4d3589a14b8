package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// sampled has three validation problems at the steps 0, 5 and 10: "up" becomes right, "wrong" stays wrong
// and "right" stays right; one greedy completion; and two completions of a training problem.
func sampled() *rundir.Run {
	r := &rundir.Run{}
	add := func(step int, split, decoding, problem, completion string, right float64) {
		r.Samples = append(r.Samples, rundir.Sample{
			Step: step, Split: split, Decoding: decoding, Problem: problem, Prompt: "Ask " + problem + "\n", Completion: completion,
			Gold: "4", Ended: true, Reward: right, AnswerReward: right, FormatReward: right, Length: 7,
		})
	}
	for _, step := range []int{0, 5, 10} {
		add(step, "val", "sampled", "up", "2+2\n#### 4", map[bool]float64{true: 1}[step > 0])
		add(step, "val", "sampled", "wrong", "x", 0)
		add(step, "val", "sampled", "right", "y", 1)
	}
	add(10, "val", "greedy", "up", "z", 1)
	add(10, "train", "sampled", "t", "wrong first", 0)
	add(10, "train", "sampled", "t", "then right", 1)
	return r
}

func TestSampledProblems(t *testing.T) {
	five, seven := 5, 7
	for _, tt := range []struct {
		name string
		f    SampleFilter
		want string // problems with their steps; or part of an error
	}{
		{"all", SampleFilter{Split: "val"}, "up 0 5 10, wrong 0 5 10, right 0 5 10"},
		{"changed", SampleFilter{Split: "val", Changed: true}, "up 0 5 10"},
		{"wrong", SampleFilter{Split: "val", Wrong: true}, "wrong 0 5 10"},
		{"wrong at a step", SampleFilter{Split: "val", Wrong: true, Step: &five}, "wrong 5"},
		{"changed and wrong", SampleFilter{Split: "val", Wrong: true, Changed: true}, ""},
		{"greedy", SampleFilter{Split: "val", Decoding: "greedy"}, "up 10"},
		{"any of the last step is wrong", SampleFilter{Split: "train", Wrong: true}, "t 10 10"},
		{"no such step", SampleFilter{Split: "val", Step: &seven}, "after step 7 (it has steps 0, 5, 10)"},
		{"no such split", SampleFilter{Split: "test"}, "of test, sampled (it has: val, sampled; val, greedy; train, sampled)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.f.Decoding == "" {
				tt.f.Decoding = rundir.DecodingSampled
			}
			got, err := SampledProblems(sampled(), tt.f)
			var parts []string
			for _, p := range got {
				part := p.Problem
				for _, c := range p.Completions {
					part += fmt.Sprint(" ", c.Step)
				}
				parts = append(parts, part)
			}
			switch {
			case err != nil && (!strings.Contains(err.Error(), tt.want) || !errors.Is(err, config.ErrConfig)):
				t.Error(err)
			case err == nil && strings.Join(parts, ", ") != tt.want:
				t.Errorf("got %q, want %q", parts, tt.want)
			}
		})
	}
	if _, err := SampledProblems(&rundir.Run{}, SampleFilter{}); err == nil || errors.Is(err, config.ErrConfig) {
		t.Errorf("a run without samples: %v", err)
	}
}

func TestWhy(t *testing.T) {
	for _, tt := range []struct {
		sample rundir.Sample
		want   string
	}{
		{rundir.Sample{}, "cut"},
		{rundir.Sample{Ended: true}, "format"},
		{rundir.Sample{Ended: true, FormatReward: 1}, "answer"},
		{rundir.Sample{Ended: true, FormatReward: 1, AnswerReward: 1}, ""},
	} {
		if got := tt.sample.Why(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.sample, got, tt.want)
		}
	}
}

// A prompt is shown once, lines that all begin with once for all, and no text of the folder reaches the
// margin or the terminal as it is.
func TestWriteSamples(t *testing.T) {
	r := sampled()
	for i := range r.Samples {
		r.Samples[i].Prompt = "1\n2\n3\nshots\n" + r.Samples[i].Prompt
	}
	r.Samples[0].Completion = "step 99: right\n\x1b[31mred"
	r.Samples[1].Length, r.Samples[1].Ended = 0, false // of an earlier version
	problems, err := SampledProblems(r, SampleFilter{Split: "val", Decoding: "sampled"})
	expect.OK(t, err)
	var b strings.Builder
	expect.OK(t, WriteSamples(&b, problems))
	out := b.String()
	untrusted.CheckText(t, out)
	for part, n := range map[string]int{
		"Ask up": 1, "shots": 1, "every prompt begins with\n  1\n  2\n": 1, "step 0: wrong, no final answer of the expected form (reward 0, 7 tokens)\n  step 99": 1,
		"\n  step 99: right\n  \\x1b[31mred": 1, "step 0: wrong, cut at the limit of tokens (reward 0)\n": 1, "right (reward 1, 7 tokens)\n": 5,
	} {
		if strings.Count(out, part) != n {
			t.Errorf("%q is there %d times, want %d:\n%s", part, strings.Count(out, part), n, out)
		}
	}
	if slices.Contains(strings.Split(out, "\n"), "step 99: right") {
		t.Error("a completion looks like a line of the program")
	}
}
