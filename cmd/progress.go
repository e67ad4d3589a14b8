package cmd

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// progress shows a run on standard error: a bar with the time left on a
// terminal, otherwise a line at each evaluation.
type progress struct {
	w       io.Writer
	redraw  bool
	now     func() time.Time
	bar     *progressbar.ProgressBar
	started time.Time
	first   int // step after which this process started
	steps   int
}

// newProgress returns an observer; with quiet it shows nothing.
func newProgress(s *State, quiet bool) *progress {
	w := s.Err
	if quiet {
		w = io.Discard
	}
	return &progress{w: w, redraw: s.Redraw && !quiet, now: s.Now}
}

func (p *progress) newBar(steps int, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(steps < 1e7), // the bar's time left overflows beyond 292 years
		progressbar.OptionSetElapsedTime(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(24), progressbar.OptionFullWidth())
}

// line prints a line above the bar.
func (p *progress) line(format string, args ...any) {
	if p.bar != nil {
		_ = p.bar.Clear() // failing to draw the bar is no reason to stop a run
	}
	textutil.Fprintf(p.w, format+"\n", args...)
	if p.bar != nil {
		_ = p.bar.RenderBlank()
	}
}

// Begin implements train.Observer.
func (p *progress) Begin(resumedAt, steps int) {
	p.started, p.first, p.steps = p.now(), resumedAt, steps
	if resumedAt > 0 {
		p.line("continuing after step %d of %d", resumedAt, steps)
	}
	if p.redraw {
		p.bar = p.newBar(steps, "training")
		_ = p.bar.Set(resumedAt)
	}
}

// Step implements train.Observer.
func (p *progress) Step(m rundir.Metrics) {
	if p.bar != nil {
		what := fmt.Sprintf("train reward %.3f", m.Reward.Mean)
		if accuracy, ok := m.Preference["rewards/accuracies"]; ok {
			what = fmt.Sprintf("pairs ranked right %.3f", accuracy)
		}
		p.bar.Describe(what)
		_ = p.bar.Set(m.Step)
		if m.Step == p.steps {
			_ = p.bar.Finish()
		}
	}
}

// Eval implements train.Observer. It is called before the Step of its step.
func (p *progress) Eval(e rundir.Eval) {
	width := len(fmt.Sprint(p.steps))
	line := fmt.Sprintf("step %*d/%d  validation: sampled %.3f", width, e.Step, p.steps, e.Sampled.AnswerReward)
	if e.Greedy != nil {
		line += fmt.Sprintf("  greedy %.3f", e.Greedy.AnswerReward)
	}
	line += fmt.Sprintf("  formatted %.3f  length %4.1f", e.Sampled.FormatReward, e.Sampled.Length)
	if done := e.Step - p.first; done > 0 && e.Step < p.steps && !p.redraw {
		left := p.now().Sub(p.started).Seconds() / float64(done) * float64(p.steps-e.Step)
		line += fmt.Sprintf("  %s left", shortTime(left))
	}
	p.line("%s", line)
}

// Note implements train.Observer, train.SFTObserver and train.RewardModelObserver.
func (p *progress) Note(text string) { p.line("note: %s", text) }

// SFTStep implements train.SFTObserver.
func (p *progress) SFTStep(s train.SFTStep, steps int) {
	if p.redraw {
		if s.Step == 1 {
			p.bar = p.newBar(steps, textutil.Printable(s.Stage, 20))
		}
		_ = p.bar.Set(s.Step)
	}
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
	if p.redraw {
		if p.bar == nil {
			p.bar = p.newBar(steps, "training")
		}
		_ = p.bar.Set(s.Step)
	}
	if e := s.Eval; e != nil {
		p.line("step %d/%d  loss %.4f  held-out pairs: loss %.4f  accuracy %.3f  margin %.3f", s.Step, steps, s.Loss, e.Loss, e.Accuracy, e.Margin)
	}
}

// lineEvery is the time between lines of a counter, where no bar can be drawn.
const lineEvery = 5 * time.Second

// counter shows how many of something are done, with the time left.
func (p *progress) counter(what string) func(done, of int) {
	started := p.now()
	last := started
	return func(done, of int) {
		if p.redraw {
			if p.bar == nil {
				p.bar = p.newBar(of, what+"s")
			}
			_ = p.bar.Set(done)
			return
		}
		if now := p.now(); now.Sub(last) >= lineEvery && done < of {
			last = now
			left := now.Sub(started).Seconds() / float64(done) * float64(of-done)
			p.line("%d of %s, %s left", done, textutil.Count(of, what), shortTime(left))
		}
	}
}

// done erases the bar before results are printed.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
