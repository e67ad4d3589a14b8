package report

import (
	"bytes"
	"encoding/csv"
	"math"
	"slices"
	"strconv"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/sweepdir"
)

// records reads a CSV file as rows by column.
func records(t *testing.T, data []byte) (out []map[string]string) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll() // all rows have the same length
	expect.OK(t, err)
	for _, row := range rows[1:] {
		r := map[string]string{}
		for i, head := range rows[0] {
			r[head] = row[i]
		}
		out = append(out, r)
	}
	return out
}

func curvesOf(t *testing.T, a *Report) []map[string]string {
	t.Helper()
	var b bytes.Buffer
	expect.OK(t, a.curves(&b))
	return records(t, b.Bytes())
}

// The last validation of each run in curves.csv is what results.csv has by seed, and its mean over seeds
// is the arm's.
func TestCurvesAgreeWithResults(t *testing.T) {
	a := mustReport(t, reporttest.DrawnSweep(3, nil, reporttest.ManyArms(3)...))
	table := a.resultsTable()
	curves := curvesOf(t, a)
	for metric, name := range map[string]string{
		"final": "sampled/answer_reward", "correct_num": "sampled/correct_num", "error_num": "sampled/error_num",
		"unformatted": "sampled/unformatted", "format_reward": "sampled/format_reward",
	} {
		for _, arm := range records(t, table.CSV()) {
			var sum float64
			for seed := 1; seed <= 3; seed++ {
				last, value := -1, ""
				for _, r := range curves {
					step, _ := strconv.Atoi(r["step"])
					if r["arm"] == arm["arm"] && r["seed"] == strconv.Itoa(seed) && r["split"] == "val" && r["metric"] == name && step > last {
						last, value = step, r["value"]
					}
				}
				if want := arm[metric+"_seed"+strconv.Itoa(seed)]; value != want || want == "" {
					t.Errorf("%s, seed %d, %s: %q, results.csv has %q", arm["arm"], seed, name, value, want)
				}
				v, _ := strconv.ParseFloat(value, 64)
				sum += v
			}
			if mean, err := strconv.ParseFloat(arm[metric+"_mean"], 64); err != nil || math.Abs(mean-sum/3) > 1e-12 {
				t.Errorf("%s, %s: mean %v, results.csv has %v", arm["arm"], name, sum/3, mean)
			}
		}
	}
	train := 0
	for _, r := range curves {
		if r["split"] == "train" && r["metric"] == "entropy" {
			train++
		}
		if v, err := strconv.ParseFloat(r["value"], 64); err != nil || math.IsNaN(v) {
			t.Fatalf("the value of %v is no number", r)
		}
	}
	want := 0
	for _, s := range a.Sweep.Runs {
		want += len(s.Run.Metrics)
	}
	if train != want {
		t.Errorf("%d entropies, the runs have %d steps", train, want)
	}
}

// Swept keys have columns of their own: those of axes, or without axes those that differ.
func TestCurvesHaveSweptKeys(t *testing.T) {
	sw := reporttest.FakeSweep(1, reporttest.FakeArm{Name: "x", Point: []string{"=1"}, Run: reporttest.Around(.9, .01, 1)},
		reporttest.FakeArm{Name: "y", Point: []string{"2"}, Run: reporttest.Around(.8, .01, 2)})
	m := &sw.Manifest
	m.Axes = []sweepdir.Axis{{Key: "train.learning_rate", Values: []string{"=1", "2"}}}
	for _, r := range curvesOf(t, mustReport(t, sw)) {
		if want := map[string]string{"x": "'=1", "y": "2"}[r["arm"]]; r["train.learning_rate"] != want {
			t.Fatalf("%v, want %s", r, want)
		}
	}
	m.Axes, m.Varied = nil, []string{"a.b", "c"}
	for i := range m.Arms {
		m.Arms[i].Point, m.Arms[i].Set = nil, []sweepdir.Override{{Key: "a.b", Value: m.Arms[i].Name + "!"}}
	}
	rows := curvesOf(t, mustReport(t, sw))
	if i := slices.IndexFunc(rows, func(r map[string]string) bool { return r["a.b"] != r["arm"]+"!" || r["c"] != "" }); i >= 0 || len(rows) == 0 {
		t.Errorf("%d rows, %v", len(rows), rows[max(0, i)])
	}
}
