package main

import (
	"math"
	"os"
	"testing"
	"time"

	"grpo/pkg/reward"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSteps runs this example as the command of a reward function.
func TestSteps(t *testing.T) {
	f, err := reward.Open(t.Context(), reward.Spec{
		Name: "steps", Command: []string{os.Args[0], "serve"}, Timeout: time.Minute,
	}, func(s string) { t.Error(s) })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	texts := []string{"<<7+5=12>>", "<<7+5=13>> <<3*4=12>>", "12", "<<2-9=-7>>"}
	want := []float64{1, 0.5, math.NaN(), 1}
	b := reward.Batch{Step: 1, GroupSize: 2}
	for _, text := range texts {
		b.Completions = append(b.Completions, reward.Completion{Completion: text})
	}
	s, err := f.Score(b)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range s.Rewards {
		if x != want[i] && !(math.IsNaN(x) && math.IsNaN(want[i])) {
			t.Errorf("%s: reward %v, want %v", texts[i], x, want[i])
		}
	}
	if s.Columns["equations"][1] != 2.0 {
		t.Errorf("columns %v", s.Columns)
	}
}
