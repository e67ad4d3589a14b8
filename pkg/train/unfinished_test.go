package train

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
)

// An evaluation that was interrupted continues with the completions that it has, unless they are damaged, and with
// the same bits.
func TestUnfinishedEvaluation(t *testing.T) {
	cfg := tinyDecoder(t, "val_size=260", "unseen_size=0", "test_size=0", "sampling_max_tokens=3", "eval.final_size=270",
		"train.n_grpo_steps=1")
	// run counts the tokens that are sampled in each split's evaluation, and is interrupted in one of them.
	run := func(dir, in string, step int) (map[string]int, *watch, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, tokens, last := &watch{}, map[string]int{}, model.Activity{}
		o := options(dir, w, 2)
		seen := 0
		o.Progress = func(a model.Activity) {
			if a.What != last.What && a.What == in {
				seen++
			}
			if a.What == in && seen == step && a.Done > 512 { // one piece, sampled and greedy, is over
				cancel()
			}
			if strings.HasPrefix(a.What, "evaluating") && a.What == last.What {
				tokens[a.What] += a.Tokens - last.Tokens
			}
			last = a
		}
		_, err := Run(ctx, cfg, o)
		return tokens, w, err
	}
	whole := t.TempDir()
	all, _, err := run(whole, "", 0)
	expect.OK(t, err)
	want := open(t, whole)
	if val, final := all["evaluating val"], all["evaluating val_final"]; final > val*3/4 || final < val/3 { // no greedy ones of the 256
		t.Errorf("%d tokens of the curve's problems, %d of all", val, final)
	}

	change := func(old, replacement string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(replacement), 1) }
	}
	for _, tt := range []struct {
		name, in string
		time     int // of this split's evaluations
		damage   func([]byte) []byte
		reused   bool
		noted    bool
	}{
		{"first evaluation", "evaluating val", 1, nil, true, false},
		{"before the first step", "evaluating val_final", 1, nil, true, false},
		{"last evaluation", "evaluating val_final", 2, nil, true, false},
		{"a token is another", "evaluating val", 1, change(`"tokens":[`, `"tokens":[1`), false, true},
		{"a completion has ended", "evaluating val", 1, change(`"ended":false`, `"ended":true`), false, true},
		{"no end of the second line", "evaluating val", 1, func(b []byte) []byte { return b[:len(b)-1] }, true, false},
		{"no JSON", "evaluating val", 1, func([]byte) []byte { return []byte("lost\n") }, false, true},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		before, _, err := run(dir, tt.in, tt.time)
		if !errors.Is(err, rundir.ErrInterrupted) || errors.Is(err, rundir.ErrNothingSaved) {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if s := open(t, dir).Status; s.State != rundir.StateInterrupted {
			t.Errorf("%s: status %+v", tt.name, *s)
		}
		path := filepath.Join(dir, UnfinishedFile)
		data, err := os.ReadFile(path)
		expect.OK(t, err)
		if tt.damage != nil {
			expect.OK(t, os.WriteFile(path, tt.damage(data), 0o644))
		}
		after, w, err := run(dir, "", 0)
		expect.OK(t, err)
		if noted, want := strings.Contains(strings.Join(w.notes, "\n"), UnfinishedFile+": line 1"), tt.noted; noted != want {
			t.Errorf("%s: notes %q", tt.name, w.notes)
		}
		sameBits(t, want, open(t, dir))
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %s is left: %v", tt.name, UnfinishedFile, err)
		}
		for split, n := range all {
			got := before[split] + after[split]
			switch extra := got - n; {
			case tt.reused && (extra < 0 || extra > n/3), !tt.reused && split == tt.in && extra < n/3: // what the cut piece had
				t.Errorf("%s: %d tokens %s, %d in a run that was not interrupted", tt.name, got, split, n)
			}
		}
	}
}
