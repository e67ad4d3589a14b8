package plots

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"grpo/internal/textutil"
)

// niceTicks labels multiples of 1, 2 or 5 times a power of ten, at least want of
// them.
type niceTicks struct {
	want    int
	integer bool // the step is at least 1
}

// Ticks implements [plot.Ticker].
func (t niceTicks) Ticks(lo, hi float64) []plot.Tick {
	step := niceBelow((hi - lo) / float64(t.want))
	if t.integer {
		step = max(1, step)
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	// Multiples of whole numbers, so that 0.3 is not 0.30000000000000004.
	for k := math.Ceil(lo/step - 1e-9); k <= math.Floor(hi/step+1e-9); k++ {
		v := k * step
		if k == 0 {
			v = 0 // not -0
		}
		label := strconv.FormatFloat(v, 'f', digits, 64)
		if step >= 1e5 || digits > 4 {
			label = textutil.Exponent(strconv.FormatFloat(v, 'g', 3, 64))
		}
		if v < 0 {
			label = "−" + label[1:]
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}

// logTicks labels powers of ten, and 2 and 5 times them too where the axis is
// shorter than two decades; the rest of 1 to 9 are ticks without a label. The
// axis is a linear one of decimal logarithms: gonum's own logarithmic scale places
// the axis label in the arithmetic middle of the range, which is near its end.
type logTicks struct{}

// Ticks implements [plot.Ticker].
func (logTicks) Ticks(lo, hi float64) []plot.Tick {
	first, last := math.Floor(lo+1e-9), math.Ceil(hi-1e-9)
	every := max(1, math.Ceil((last-first)/6))
	var ticks []plot.Tick
	for e := first; e <= last; e++ {
		for m := 1; m <= 9; m++ {
			v, err := strconv.ParseFloat(strconv.Itoa(m)+"e"+strconv.Itoa(int(e)), 64)
			at := math.Log10(v)
			if err != nil || at < lo-1e-9 || at > hi+1e-9 {
				continue
			}
			label := ""
			if m == 1 && math.Mod(e-first, every) == 0 || (m == 2 || m == 5) && hi-lo < 2 {
				label = textutil.Exponent(strconv.FormatFloat(v, 'g', 5, 64))
			}
			ticks = append(ticks, plot.Tick{Value: at, Label: label})
		}
	}
	return ticks
}
