package cmd

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// progress shows what a command does on standard error: on a terminal a bar with the time left, otherwise lines. A
// run has a line for each evaluation, and for each step that takes long.
type progress struct {
	mu     sync.Mutex // [progress.beat] is called on another goroutine
	w      io.Writer
	redraw bool
	now    func() time.Time
	every  func(time.Duration, func()) (stop func()) // nil: activities are not shown
	size   func() (width, height int)                // of the terminal

	head    string // a line that is due before the next: see [progress.headline]
	doing   activity
	bar     *progressbar.ProgressBar
	barOf   string // what bar counts
	started time.Time
	first   int       // step after which this process started
	step    int       // the last step
	stepped time.Time // when it ended; zero before the evaluation of the initial weights is over
	steps   int       // 0: no run
	last    string    // what the last step was like
}

// newProgress returns an observer; with quiet it shows nothing.
func newProgress(s *State, quiet bool) *progress {
	p := &progress{w: s.Err, redraw: s.Redraw, now: s.Now, every: s.Every, size: terminalSize(s.Err)}
	if quiet {
		p.w, p.redraw, p.every = io.Discard, false, nil
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
	if p.bar != nil {
		_ = p.bar.Clear() // failing to draw the bar is no reason to stop a run
	}
	_, _ = io.WriteString(p.w, text+"\n")
	if p.bar != nil {
		_ = p.bar.RenderBlank()
	}
	if p.doing.stop != nil {
		p.doing.spoke = p.now()
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
	p.setSteps(resumedAt, "training")
}

// setSteps moves the bar of a run.
func (p *progress) setSteps(step int, what string) {
	if !p.redraw {
		return
	}
	if p.barOf != barOfSteps {
		p.clear()
		p.bar, p.barOf = p.newBar(p.steps, what), barOfSteps
	}
	p.bar.Describe(what)
	_ = p.bar.Set(step) // failing to draw the bar is no reason to stop a run
}

// Step implements train.Observer.
func (p *progress) Step(m rundir.Metrics) {
	what := fmt.Sprintf("train reward %.3f", m.Reward.Mean)
	if accuracy, ok := m.Preference["rewards/accuracies"]; ok {
		what = fmt.Sprintf("pairs ranked right %.3f", accuracy)
	}
	p.took(m.Step, p.steps, what)
}

// took notes the end of a step that was like what, and prints a line if it took long.
func (p *progress) took(step, steps int, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.steps == 0 || step <= p.step { // there was no Begin, or this is another stage
		p.clear()
		p.started, p.first, p.stepped = now, step, time.Time{}
	}
	long := !p.stepped.IsZero() && now.Sub(p.stepped) >= lineEvery
	p.step, p.steps, p.stepped, p.last = step, steps, now, what
	p.setSteps(step, what)
	if long {
		p.print(p.stepLine(now))
	}
	if step == steps {
		p.stepped = time.Time{}
		if p.bar != nil {
			_ = p.bar.Finish()
			p.bar, p.barOf = nil, ""
		}
	}
}

// stepLine is a line about the last step.
func (p *progress) stepLine(now time.Time) string {
	return fmt.Sprintf("step %*d/%d  %s%s", len(fmt.Sprint(p.steps)), p.step, p.steps, p.last, p.left(p.step, now))
}

// left is the time that a run takes after a step; empty if it is not known, or beside the bar, which tells it.
func (p *progress) left(step int, now time.Time) string {
	done := step - p.first
	if done <= 0 || step >= p.steps || p.redraw {
		return ""
	}
	return fmt.Sprintf("  %s left", shortTime(now.Sub(p.started).Seconds()/float64(done)*float64(p.steps-step)))
}

// Eval implements train.Observer. It is called before the Step of its step.
func (p *progress) Eval(e rundir.Eval) {
	width := len(fmt.Sprint(p.steps))
	line := fmt.Sprintf("step %*d/%d  validation: sampled %.3f", width, e.Step, p.steps, e.Sampled.AnswerReward)
	if e.Greedy != nil {
		line += fmt.Sprintf("  greedy %.3f", e.Greedy.AnswerReward)
	}
	line += fmt.Sprintf("  formatted %.3f  length %4.1f", e.Sampled.FormatReward, e.Sampled.Length)
	p.line("%s%s", line, p.left(e.Step, p.now()))
	if e.Step == 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stepped = p.now()
	}
}

// Note implements train.Observer, train.SFTObserver and train.RewardModelObserver.
func (p *progress) Note(text string) { p.line("note: %s", text) }

// SFTStep implements train.SFTObserver.
func (p *progress) SFTStep(s train.SFTStep, steps int) {
	p.took(s.Step, steps, fmt.Sprintf("%s loss %.4f", textutil.Printable(s.Stage, 20), s.Loss))
	if s.Validation != nil {
		loss := ""
		if s.ValidationLoss != nil {
			loss = fmt.Sprintf("loss %.4f  ", *s.ValidationLoss)
		}
		p.line("%s: step %d/%d  loss %.4f  validation: %ssampled %.3f  greedy %.3f", s.Stage, s.Step, steps, s.Loss,
			loss, s.Validation.Sampled.AnswerReward, s.Validation.Greedy.AnswerReward)
	}
}

// RewardModelStep implements train.RewardModelObserver.
func (p *progress) RewardModelStep(s train.RewardModelStep, steps int) {
	p.took(s.Step, steps, fmt.Sprintf("loss %.4f", s.Loss))
	if e := s.Eval; e != nil {
		p.line("step %d/%d  loss %.4f  held-out pairs: loss %.4f  accuracy %.3f  margin %.3f", s.Step, steps, s.Loss, e.Loss, e.Accuracy, e.Margin)
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

// clear erases the bar.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar, p.barOf = nil, ""
	}
}
