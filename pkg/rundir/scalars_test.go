package rundir

import (
	"encoding/csv"
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

func TestScalars(t *testing.T) {
	x := 0.25
	m := Metrics{Step: 3, Updates: 6, Loss: math.NaN(), ClipFraction: &x, Reward: Stat{1, 0.5}, Rewards: map[string]Stat{"format": {}, "answer\n": {2, 3}}}
	got := map[string]float64{}
	var names []string
	for _, s := range m.Scalars() {
		got[s.Name] = s.Value
		names = append(names, s.Name)
	}
	for name, want := range map[string]float64{
		"train/updates": 6, "train/clip_fraction": 0.25, "train/reward/std": 0.5, `train/rewards/answer\n/mean`: 2, "train/rewards/format/mean": 0,
		"train/time/elapsed_s": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, %v; want %v", name, v, ok, want)
		}
	}
	for _, name := range []string{"train/loss", "train/ratio_mean", "train/sampling_rounds", "train/completion_length_right"} {
		if v, ok := got[name]; !ok || !math.IsNaN(v) {
			t.Errorf("%s is %v, %v; want NaN", name, v, ok)
		}
	}
	if _, ok := got["train/columns"]; ok {
		t.Error("an empty map is a scalar")
	}
	if _, ok := got["train/step"]; ok || names[0] != "train/updates" || slices.Index(names, `train/rewards/answer\n/std`) > slices.Index(names, "train/rewards/format/mean") {
		t.Errorf("names %q", names)
	}
}

func TestCSV(t *testing.T) {
	r := &Run{
		Metrics: []Metrics{{Step: 1, Loss: 0.5, Rewards: map[string]Stat{"answer": {}}}, {Step: 2, Loss: math.Inf(1)}},
		Evals:   []Eval{{Step: 0, Split: "val", Sampled: Counts{N: 4, CorrectNum: 1}}, {Step: 2, Split: "a,b", Greedy: &Counts{N: 3}}},
	}
	rows, err := csv.NewReader(strings.NewReader(string(r.CSV("=arm\n", "7")))).ReadAll() // all rows have the same length
	expect.OK(t, err)
	cell := func(row int, name string) string { return rows[row][slices.Index(rows[0], name)] }
	for _, tt := range []struct {
		row        int
		name, want string
	}{
		{1, "step", "0"}, {2, "step", "1"}, {3, "step", "2"},
		{1, "train/loss", ""}, {2, "train/loss", "0.5"}, {3, "train/loss", ""},
		{1, "eval/val/sampled/correct_num", "1"}, {2, "eval/val/sampled/correct_num", ""},
		{3, "eval/a,b/greedy/n", "3"}, {3, "train/rewards/answer/mean", ""}, {1, "arm", `'=arm\n`}, {3, "arm", `'=arm\n`}, {3, "seed", "7"},
	} {
		if got := cell(tt.row, tt.name); got != tt.want {
			t.Errorf("row %d, %s: %q, want %q", tt.row, tt.name, got, tt.want)
		}
	}
	if len(rows) != 4 || rows[0][0] != "step" || rows[0][1] != "train/updates" || rows[0][len(rows[0])-1] != "seed" {
		t.Errorf("%d rows, columns %q", len(rows), rows[0][:2])
	}
	if got := string((&Run{}).CSV("", "")); got != "step,arm,seed\n" {
		t.Errorf("a run without lines: %q", got)
	}
}
