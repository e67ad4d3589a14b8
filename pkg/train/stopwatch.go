package train

import "time"

// stopwatch adds up the time that passes. It is asked often and believes no
// step backwards, so that a clock that is set while a run is under way gives no
// negative seconds; nothing but what is written down as a time depends on it.
type stopwatch struct {
	now   func() time.Time
	start time.Time
	last  time.Time
	sum   float64
}

func newStopwatch(now func() time.Time) *stopwatch {
	start := now()
	return &stopwatch{now: now, start: start, last: start}
}

// seconds returns the time since the stopwatch was made.
func (w *stopwatch) seconds() float64 {
	w.lap()
	return w.sum
}

// lap returns the time since it was last asked for anything.
func (w *stopwatch) lap() float64 {
	before := w.last
	w.last = w.now()
	s := max(0, w.last.Sub(before).Seconds())
	w.sum += s
	return s
}
