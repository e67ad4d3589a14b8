package report

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// niceStep is the largest of 1, 2 and 5 times a power of ten that divides
// span into at least want parts, and so at most about 2.5 times as many.
func niceStep(span float64, want int) float64 {
	raw := span / float64(want)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{5, 2} {
		if m*power <= raw {
			return m * power
		}
	}
	return power
}

// niceTicks labels multiples of a nice step.
type niceTicks struct {
	want    int
	integer bool // the step is at least 1
}

// Ticks implements [plot.Ticker].
func (t niceTicks) Ticks(lo, hi float64) []plot.Tick {
	step := niceStep(hi-lo, t.want)
	if t.integer {
		step = max(1, step)
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	// Multiples are computed from whole numbers, so that 0.3 is not
	// 0.30000000000000004.
	for k := math.Ceil(lo/step - 1e-9); k <= math.Floor(hi/step+1e-9); k++ {
		v := k * step
		if k == 0 {
			v = 0 // not -0
		}
		label := strconv.FormatFloat(v, 'f', digits, 64)
		if step >= 1e5 || digits > 4 {
			label = strconv.FormatFloat(v, 'g', 3, 64)
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}
