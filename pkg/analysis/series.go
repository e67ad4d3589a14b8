package analysis

import (
	"slices"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// Point is a step and the value there.
type Point struct{ X, Y float64 }

// Series is one metric of a run against the step. Values that are not finite are
// left out.
type Series []Point

// UpTo is the last point of s that is not beyond x.
func (s Series) UpTo(x float64) (p Point, ok bool) {
	for _, q := range s {
		if q.X <= x {
			p, ok = q, true
		}
	}
	return p, ok
}

// Add appends a value unless it is not finite.
func (s *Series) Add(step int, value float64) {
	if stats.IsFinite(value) {
		*s = append(*s, Point{X: float64(step), Y: value})
	}
}

// MetricSeries takes a value from each line of metrics.jsonl; nil where a line has
// none.
func MetricSeries(r *rundir.Run, value func(rundir.Metrics) *float64) Series {
	var s Series
	for _, m := range r.Metrics {
		if v := value(m); v != nil {
			s.Add(m.Step, *v)
		}
	}
	return s
}

// EvalSeries takes the answer reward from each evaluation of a split.
func EvalSeries(r *rundir.Run, split, decoding string) Series {
	var s Series
	for _, e := range EvalsOf(r, split) {
		if c := DecodedCounts(&e, decoding); c != nil {
			s.Add(e.Step, c.AnswerReward)
		}
	}
	return s
}

// ForEach is one series a run.
func ForEach(runs []*rundir.Run, f func(*rundir.Run) Series) []Series {
	out := make([]Series, len(runs))
	for i, r := range runs {
		out[i] = f(r)
	}
	return out
}

// MeanSeries averages several series at the steps that all of them have. Beyond the
// end of the shortest there is no mean: it would jump when a run drops out.
func MeanSeries(all []Series) Series {
	if len(all) == 0 {
		return nil
	}
	values := make(map[float64][]float64)
	for _, s := range all {
		for _, p := range s {
			values[p.X] = append(values[p.X], p.Y)
		}
	}
	var out Series
	for _, p := range all[0] {
		if ys := values[p.X]; len(ys) == len(all) {
			m, _, _ := stats.MeanSD(ys)
			out = append(out, Point{X: p.X, Y: m})
		}
	}
	return out
}

// NonEmpty leaves out series without a point.
func NonEmpty(all []Series) []Series {
	return slices.DeleteFunc(slices.Clone(all), func(s Series) bool { return len(s) == 0 })
}
