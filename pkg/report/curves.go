package report

import (
	"bufio"
	"encoding/csv"
	"io"
	"os"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// writeCurves writes curves.csv: all steps and evaluations of all runs of a sweep in the long form
// ("tidy"), a row for each number:
//
//	arm, seed       as in results.csv
//	KEY ...         the arm's value of each swept key: of each axis, or without axes of each key that differs
//	step
//	split           "train" for a line of metrics.jsonl, else the set of problems of an evaluation
//	metric, value   named by the place in the line: "reward/mean", "sampled/answer_reward"
//
// A number that does not exist or is not finite has no row. Times are left out, so that the same runs
// give the same bytes; metrics.csv of each run has them.
func writeCurves(path string, a *Report) error {
	return rundir.WriteAtomic(path, func(f *os.File) error {
		b := bufio.NewWriter(f)
		if err := a.curves(b); err != nil {
			return err
		}
		return b.Flush()
	})
}

func (a *Report) curves(out io.Writer) error {
	w := csv.NewWriter(out)
	keys := a.sweptKeys()
	write := func(cells []string) {
		for i, c := range cells {
			cells[i] = textutil.CSVCell(c)
		}
		w.Write(cells) // Flush keeps the error
	}
	head := append([]string{"arm", "seed"}, keys...)
	write(append(head, "step", "split", "metric", "value"))
	for k := range a.Arms {
		values := a.sweptValues(k, keys)
		for _, s := range a.Arms[k].Runs {
			if s.Run == nil {
				continue
			}
			fixed := append([]string{a.Arms[k].Arm.Name, strconv.FormatUint(s.Seed, 10)}, values...)
			add := func(step int, split string, scalars []rundir.Scalar, prefix string) {
				for _, x := range scalars {
					name := strings.TrimPrefix(x.Name, prefix+"/")
					if stats.IsFinite(x.Value) && !strings.HasPrefix(name, "time/") {
						write(append(fixed[:len(fixed):len(fixed)], strconv.Itoa(step), split, name, exact(x.Value)))
					}
				}
			}
			for _, m := range s.Run.Metrics {
				add(m.Step, rundir.SplitTrain, m.Scalars(), "train")
			}
			for _, e := range s.Run.Evals {
				split := textutil.Printable(e.Split, 0)
				add(e.Step, split, e.Scalars(), "eval/"+split)
			}
		}
	}
	w.Flush()
	return w.Error()
}

// sweptKeys are the keys of the axes, or without axes those that differ by arm.
func (a *Report) sweptKeys() []string {
	axes := a.Sweep.Manifest.Axes
	if len(axes) == 0 {
		return a.varyingKeys()
	}
	keys := make([]string, len(axes))
	for i, x := range axes {
		keys[i] = x.Key
	}
	return keys
}

// sweptValues are the values of sweptKeys of an arm; empty where it has none.
func (a *Report) sweptValues(arm int, keys []string) []string {
	m := &a.Sweep.Manifest
	out := make([]string, len(keys))
	if len(m.Axes) > 0 {
		copy(out, a.Arms[arm].Arm.Point)
		return out
	}
	config := a.ConfigOf(arm)
	for i, key := range keys {
		out[i] = config[key]
	}
	return out
}
