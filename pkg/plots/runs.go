package plots

import (
	"cmp"
	"fmt"
	"slices"

	"grpo/pkg/rundir"
)

// Runs draws the figures of one run, or of several seeds of one arm, that the runs have data for:
//
//	validation_reward.png   the validation answer reward against the step; title replaces its own
//	training.png            answer reward, lengths, entropy and gradient norm of training
//	learned_vs_true_reward.png   of runs with a reward model: its reward and the answer reward
//
// formats are "svg" and "pdf", besides PNG. It is an error when the runs are not seeds of one
// configuration.
func Runs(runs []*rundir.Run, title string, formats []string) ([]Drawing, error) {
	var out []Drawing
	for _, f := range []struct {
		file  string
		build func([]*rundir.Run) (*figure, error)
		title string
		has   func(*rundir.Run) bool
	}{
		{rundir.ValidationPlot, runsValidation, title, func(r *rundir.Run) bool { return len(r.Evals) > 0 }},
		{rundir.TrainingPlot, runsTraining, "", func(r *rundir.Run) bool { return len(r.Metrics) > 0 }},
		{rundir.LearnedPlot, runsLearned, "", func(r *rundir.Run) bool { return len(learnedReward(r)) > 0 }},
	} {
		if !slices.ContainsFunc(runs, f.has) {
			continue
		}
		fig, err := f.build(runs)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", f.file, err)
		}
		fig.title = cmp.Or(f.title, fig.title)
		d, err := fig.drawing(f.file, formats)
		if err != nil {
			return nil, err
		}
		if d.Page, err = fig.pageSVG(); err == nil {
			d.Phone, err = fig.forPhone().pageSVG()
		}
		if err != nil {
			return nil, fmt.Errorf("draw %s for the page: %w", f.file, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// forPhone is the figure for narrow screens: its panels are below each other.
func (f *figure) forPhone() *figure {
	p := *f
	p.width, p.rows = phoneWidth, nil
	for _, panel := range slices.Concat(f.rows...) {
		p.addPanel(1, panel)
	}
	return &p
}
