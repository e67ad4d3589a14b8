package cmd

import (
	"fmt"
	"strings"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// tableRun is a run as the table knows it.
type tableRun struct {
	phase       phase
	arm         int
	name        string // arm and seed
	step, steps int
	reward      float64 // last validation answer reward, sampled
	measured    bool    // there is one
	found       bool    // it was done before this sweep began
	copied      bool    // it will be: an earlier part makes the same run
	attempt     int

	started time.Time // of its process
	first   int       // step after which the process started
	rate    float64   // seconds a step
	seconds float64   // of the process, once it has ended

	lastLine time.Time // when a line reported its progress
	reported int       // step of the evaluation reported last
}

// follow takes what the folder says: steps made, the last evaluation, the pace.
func (r *tableRun) follow(s sweepdir.RunState) {
	if s.Run == nil {
		return
	}
	if st := s.Run.Status; st != nil {
		r.step = st.Step
	}
	if n := len(s.Run.Metrics); n > 0 {
		r.step = max(r.step, s.Run.Metrics[n-1].Step)
		r.rate = pace(s.Run.Metrics, r.first)
	}
	for _, e := range s.Run.Evals {
		if e.Split == rundir.SplitVal {
			r.reward, r.measured = e.Sampled.AnswerReward, true
		}
	}
}

// pace is the seconds a step since the first step after `first`; 0 while there
// are fewer than two. The clock of the lines runs on when a run is continued.
func pace(lines []rundir.Metrics, first int) float64 {
	begin := 0
	for begin < len(lines) && lines[begin].Step <= first {
		begin++
	}
	if len(lines)-begin < 2 {
		return 0
	}
	a, b := lines[begin], lines[len(lines)-1]
	return (b.Time.ElapsedS - a.Time.ElapsedS) / float64(b.Step-a.Step)
}

// end takes what result.json says.
func (r *tableRun) end(s sweepdir.RunState) {
	r.phase = phase(s.State)
	if s.Run != nil && s.Run.Result != nil {
		res := s.Run.Result
		r.step, r.reward, r.measured, r.seconds = res.Steps, res.Final.Sampled.AnswerReward, true, res.WallS
	}
}

func again(r *tableRun) string {
	switch {
	case r.attempt > 1:
		return fmt.Sprintf(", attempt %d, after step %d", r.attempt, r.first)
	case r.first > 0:
		return fmt.Sprintf(", after step %d", r.first)
	}
	return ""
}

func duration(r *tableRun) string {
	if r.started.IsZero() {
		return ""
	}
	return fmt.Sprintf(" in %s", shortTime(r.seconds))
}

func divergence(s sweepdir.RunState) string {
	if s.Run == nil || s.Run.Result == nil || s.Run.Result.DivergedAt == nil {
		return ""
	}
	return fmt.Sprintf(" (at step %d: %s)", *s.Run.Result.DivergedAt, s.Run.Result.DivergedReason)
}

// logLines shows the end of a run's log, indented, with its path.
func logLines(e sweep.Event) textutil.Lines {
	if e.LogTail == "" {
		return ""
	}
	return textutil.Lines(fmt.Sprintf("\n  %s:\n    %s", textutil.Printable(e.LogPath, 0), strings.ReplaceAll(e.LogTail, "\n", "\n    ")))
}
