package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"grpo/internal/textutil"
	"grpo/internal/tui"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
	"grpo/pkg/supervised"
	"grpo/pkg/sweep"
)

// progress shows what a command does on standard error: on a terminal a line with a bar that is redrawn, otherwise
// lines. A run has a line for each evaluation, and for each step that takes long.
type progress struct {
	mu     sync.Mutex // [progress.beat] is called on another goroutine
	screen *tui.Screen
	redraw bool
	now    func() time.Time
	every  func(time.Duration, func()) (stop func()) // nil: activities are not shown

	head    string // a line that is due before the next: see [progress.headline]
	doing   activity
	drawn   string // the line on the screen
	started time.Time
	first   int       // step after which this process started
	step    int       // the last step
	stepped time.Time // when it ended; zero before the evaluation of the initial weights is over
	steps   int       // 0: no run
	last    string    // what the last step was like
	ends    time.Time // when it is likely to end; zero: not known
	config  *config.Config
	pace    sweep.Pace
}

// newProgress returns an observer; with quiet it shows nothing.
func newProgress(s *State, quiet bool) *progress {
	p := &progress{screen: tui.New(s.Err), redraw: s.Redraw, now: s.Now, every: s.Every}
	if quiet {
		p.screen.W, p.redraw, p.every = io.Discard, false, nil
	}
	return p
}

// line prints a line above the bar.
func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	textutil.Fprintf(&b, format, args...)
	p.print(b.String())
}

// stopping prints a line when ctx ends, unless done is called soon after: a step of a large model and its evaluation
// can take most of an hour.
func (p *progress) stopping(ctx context.Context, format string, args ...any) (done func()) {
	ended := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		select {
		case <-ended:
		case <-time.After(2 * oneRequest):
			p.line(format, args...)
		}
	})
	return func() {
		forget()
		close(ended)
	}
}

// headline is a line that is printed with the next one, or when the run begins: a command that refuses
// its input names no folder before it.
func (p *progress) headline(format string, args ...any) {
	var b strings.Builder
	textutil.Fprintf(&b, format, args...)
	p.head = b.String()
}

// printHead prints the headline, if it is due, with the lock.
func (p *progress) printHead() {
	if text := p.head; text != "" {
		p.head = ""
		p.print(text)
	}
}

// print is line for printable text, with the lock.
func (p *progress) print(text string) {
	p.printHead()
	p.screen.Erase()
	_, _ = io.WriteString(p.screen.W, text+"\n")
	if p.drawn != "" {
		p.screen.Draw(p.drawn)
	}
	if p.doing.stop != nil {
		p.doing.spoke = p.now()
	}
}

// draw shows a line with a bar of what is done, if any, in place of the last.
func (p *progress) draw(done, all int64, text string) {
	if !p.redraw {
		return
	}
	if all > 0 {
		text = tui.Bar(done, all, 20) + " " + text
	}
	if p.drawn = textutil.Printable(text, 0); p.screen.Due(p.now()) {
		p.screen.Draw(p.drawn)
	}
}

// Begin implements train.Observer.
func (p *progress) Begin(resumedAt, steps int) {
	if resumedAt > 0 {
		p.line("continuing after step %d of %d", resumedAt, steps)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.printHead()
	p.started, p.first, p.step, p.steps = p.now(), resumedAt, resumedAt, steps
	if resumedAt > 0 {
		p.stepped = p.started
	}
	p.drawRun("training")
}

// drawRun draws the bar of a run.
func (p *progress) drawRun(what string) {
	p.draw(int64(p.step), int64(p.steps), fmt.Sprintf("%d/%d  %s", p.step, p.steps, what))
}

// Step implements train.Observer.
func (p *progress) Step(m rundir.Metrics) {
	what := fmt.Sprintf("train reward %.3f", m.Reward.Mean)
	if accuracy, ok := m.Preference["rewards/accuracies"]; ok {
		what = fmt.Sprintf("pairs ranked right %.3f", accuracy)
	}
	left := 0.0
	if p.config != nil {
		p.pace.Add(m)
		left = p.pace.Left(*p.config)
	}
	p.took(m.Step, p.steps, left, what)
}

// took notes the end of a step that was like what, and prints a line if it took long. left is the time that is left
// in seconds; 0 = in proportion to the steps.
func (p *progress) took(step, steps int, left float64, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.steps == 0 || step <= p.step { // there was no Begin, or this is another stage
		p.clear()
		p.started, p.first, p.stepped, p.ends = now, step, time.Time{}, time.Time{}
	}
	if done := step - p.first; left == 0 && done > 0 {
		left = now.Sub(p.started).Seconds() / float64(done) * float64(steps-step)
	}
	if left > 0 {
		p.ends = now.Add(time.Duration(left * float64(time.Second)))
	}
	long := !p.stepped.IsZero() && now.Sub(p.stepped) >= lineEvery
	p.step, p.steps, p.stepped, p.last = step, steps, now, what
	p.drawRun(what + p.left(now))
	if long {
		p.print(p.stepLine(now))
	}
	if step == steps {
		p.stepped = time.Time{}
		p.clear()
	}
}

// stepLine is a line about the last step.
func (p *progress) stepLine(now time.Time) string {
	return fmt.Sprintf("step %*d/%d  %s%s", len(fmt.Sprint(p.steps)), p.step, p.steps, p.last, p.left(now))
}

// left is the time that a run still takes; empty if it is not known.
func (p *progress) left(now time.Time) string {
	left := p.ends.Sub(now)
	if left <= 0 || p.step >= p.steps {
		return ""
	}
	return fmt.Sprintf("  %s left", shortTime(left.Seconds()))
}

// Eval implements train.Observer. It is called before the Step of its step.
func (p *progress) Eval(e rundir.Eval) {
	width := len(fmt.Sprint(p.steps))
	line := fmt.Sprintf("step %*d/%d  validation: sampled %.3f", width, e.Step, p.steps, e.Sampled.AnswerReward)
	if e.Greedy != nil {
		line += fmt.Sprintf("  greedy %.3f", e.Greedy.AnswerReward)
	}
	if s := e.Sampled.Score; s != nil {
		line += "  score " + textutil.Rounded(*s)
	}
	line += fmt.Sprintf("  formatted %.3f  length %4.1f", e.Sampled.FormatReward, e.Sampled.Length)
	p.line("%s%s", line, p.left(p.now()))
	if e.Step == 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stepped = p.now()
	}
}

// Note implements train.Observer.
func (p *progress) Note(text string) { p.line("note: %s", text) }

// SFTStep reports a step of `grpo sft`.
func (p *progress) SFTStep(s supervised.SFTStep, steps int) {
	p.took(s.Step, steps, 0, fmt.Sprintf("%s loss %.4f", textutil.Printable(s.Stage, 20), s.Loss))
	if s.Validation != nil {
		loss := ""
		if s.ValidationLoss != nil {
			loss = fmt.Sprintf("loss %.4f  ", *s.ValidationLoss)
		}
		p.line("%s: step %d/%d  loss %.4f  validation: %ssampled %.3f  greedy %.3f", s.Stage, s.Step, steps, s.Loss,
			loss, s.Validation.Sampled.AnswerReward, s.Validation.Greedy.AnswerReward)
	}
}

// RewardModelStep reports a step of `grpo reward-model`.
func (p *progress) RewardModelStep(s supervised.RewardModelStep, steps int) {
	p.took(s.Step, steps, 0, fmt.Sprintf("loss %.4f", s.Loss))
	if e := s.Eval; e != nil {
		p.line("step %d/%d  loss %.4f  held-out pairs: loss %.4f  accuracy %.3f  margin %.3f",
			s.Step, steps, s.Loss, e.Loss, e.Accuracy, e.Margin)
	}
}

// done erases the bar before results are printed, and ends the observation of what the command does.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doing.stop != nil {
		p.doing.stop()
		p.doing.stop = nil
	}
	p.clear()
}

// clear erases the line that is redrawn.
func (p *progress) clear() {
	p.screen.Erase()
	p.drawn = ""
}

// lineEvery is the shortest time between lines about what a command is doing, where no bar can be drawn. They end
// when nothing has been reported for stuckAfter: a sweep takes the lines of a run's process for a sign of life.
const (
	lineEvery  = 10 * time.Second
	stuckAfter = 10 * time.Minute
)

// activity is what a command is doing, and since when.
type activity struct {
	model.Activity
	since time.Time
	moved time.Time // when it was last reported
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
	d.Activity, d.moved = a, now
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
	case now.Sub(d.spoke) < lineEvery, now.Sub(d.moved) > stuckAfter:
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
	case d.Part > d.From && d.Part < 1:
		s += fmt.Sprintf(", %s left", shortTime(elapsed/(d.Part-d.From)*(1-d.Part)))
	case d.Part == d.From && elapsed >= 1:
		s += fmt.Sprintf(", %s so far", shortTime(elapsed))
	}
	return s
}

// drawActivity draws the activity, in a run beside its bar.
func (p *progress) drawActivity(now time.Time) {
	d := &p.doing
	elapsed := now.Sub(d.since)
	if elapsed < time.Second {
		return
	}
	count := ""
	if d.Of > 0 {
		count = fmt.Sprintf(" %d/%d", d.Done, d.Of)
	}
	if text := d.What + count + d.speed(elapsed.Seconds()); p.steps > 0 && p.step < p.steps {
		p.drawRun(text)
	} else {
		p.draw(int64(d.Done), int64(d.Of), text)
	}
}
