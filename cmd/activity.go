package cmd

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"grpo/internal/textutil"
	"grpo/pkg/model"
)

// lineEvery is the shortest time between lines about what a command is doing, where no bar can be drawn.
const lineEvery = 10 * time.Second

// activity is what a command is doing, and since when.
type activity struct {
	model.Activity
	since time.Time
	stop  func()    // ends the calls of [progress.beat]; nil: there are none
	spoke time.Time // when the last line was printed
}

// Doing is a [model.Progress]. What takes less than lineEvery prints nothing. The rate of sampling is from the first
// tokens on: reading the prompts takes long too.
func (p *progress) Doing(a model.Activity) {
	if p.every == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, d := p.now(), &p.doing
	if d.stop == nil {
		d.stop, d.spoke = p.every(time.Second, p.beat), now
	}
	if a.What != d.What || a.Done < d.Done || d.Tokens == 0 && a.Tokens > 0 || a.Tokens < d.Tokens {
		d.since = now
	}
	d.Activity = a
}

// beat shows the activity: on a terminal always, otherwise if no line was printed for lineEvery.
func (p *progress) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, d := p.now(), &p.doing
	switch {
	case d.stop == nil:
	case p.redraw:
		p.drawActivity(now)
	case now.Sub(d.spoke) < lineEvery:
	case p.inRun() && now.Sub(p.stepped) < lineEvery: // steps are short: an activity says nothing about the run
		p.print(p.stepLine(now))
	case p.inRun():
		p.print(fmt.Sprintf("step %d/%d: %s", min(p.step+1, p.steps), p.steps, d.text(now)))
	default:
		p.print(d.text(now))
	}
}

// inRun reports whether the first evaluation of a run is over and its end is not reached.
func (p *progress) inRun() bool { return p.steps > 0 && !p.stepped.IsZero() }

// text is the activity in a line, such as "sampling, 45 of 64 completions, 310 tokens/s, 12s left".
func (d *activity) text(now time.Time) string {
	s, elapsed := d.What, now.Sub(d.since).Seconds()
	if d.Of > 0 {
		s += fmt.Sprintf(", %d of %s", d.Done, textutil.Count(d.Of, d.Unit))
	}
	return s + d.speed(elapsed)
}

// speed is the rate of sampling and the time left, or without a number of things to do, the time so far.
func (d *activity) speed(elapsed float64) (s string) {
	if d.Tokens > 0 && elapsed >= 2 {
		s += fmt.Sprintf(", %.0f tokens/s", float64(d.Tokens)/elapsed)
	}
	switch {
	case d.Part > 0 && d.Part < 1:
		s += fmt.Sprintf(", %s left", shortTime(elapsed/d.Part*(1-d.Part)))
	case d.Part == 0 && elapsed >= 1:
		s += fmt.Sprintf(", %s so far", shortTime(elapsed))
	}
	return s
}

// drawActivity describes the activity beside the bar of a run, or in a bar of its own.
func (p *progress) drawActivity(now time.Time) {
	d := &p.doing
	elapsed := now.Sub(d.since)
	if elapsed < time.Second {
		return
	}
	width, _ := p.size()
	if p.barOf == barOfSteps {
		text := d.What
		if d.Of > 0 {
			text += fmt.Sprintf(" %d/%d", d.Done, d.Of)
		}
		room, rest := max(20, width-45), d.speed(elapsed.Seconds())
		if len(text+rest) > room { // the time left matters more
			short := *d
			short.Tokens = 0
			rest = short.speed(elapsed.Seconds())
		}
		p.bar.Describe(textutil.Printable(text+rest, room))
		return
	}
	if name := fmt.Sprint(d.What, d.Of); p.barOf != name {
		p.clear()
		p.bar, p.barOf = p.newBar(d.Of, ""), name
	}
	p.bar.Describe(textutil.Printable(d.What+d.speed(elapsed.Seconds()), max(20, width-35)))
	if d.Of > 0 {
		_ = p.bar.Set(d.Done) // failing to draw the bar is no reason to stop
	}
}

// barOfSteps is [progress.barOf] of a bar that counts steps.
const barOfSteps = "steps"

// newBar returns a bar of n things, or with 0 a line that says what is going on.
func (p *progress) newBar(n int, what string) *progressbar.ProgressBar {
	options := []progressbar.Option{progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(what),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSpinnerCustom([]string{""}),
		progressbar.OptionSetSpinnerChangeInterval(0)}
	if n == 0 {
		return progressbar.NewOptions(-1, options...)
	}
	return progressbar.NewOptions(n, append(options, progressbar.OptionShowCount(), progressbar.OptionSetWidth(24),
		progressbar.OptionFullWidth(),
		// The activity tells its own time left; the bar's overflows beyond 292 years.
		progressbar.OptionSetPredictTime(what != "" && n < 1e7))...)
}
