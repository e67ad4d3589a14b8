package model

// Activity is what a command is doing, and how far it is.
type Activity struct {
	What     string // such as "sampling"
	Unit     string // what Done and Of count, in the singular, such as "completion"
	Done, Of int    // Of 0: it is not known how many
	Tokens   int    // sampled so far
	// Part is the share of the work that is done, 0 to 1: tokens of unfinished completions count too.
	Part float64
}

// Progress gets each change of what a command is doing, on the command's goroutine. It may be nil.
type Progress func(Activity)

// Do begins an activity of unknown length.
func (p Progress) Do(what string) { p.report(Activity{What: what}) }

// Count reports how many of something an activity has done.
func (p Progress) Count(what, unit string, done, of int) {
	p.report(Activity{What: what, Unit: unit, Done: done, Of: of, Part: float64(done) / float64(max(1, of))})
}

func (p Progress) report(a Activity) {
	if p != nil {
		p(a)
	}
}

// Watch returns a [Sampling.Watch] that reports the completions of calls that sample `of` of them, each of up to
// maxTokens tokens. stop, if it is not nil, gives the error that ends them.
func (p Progress) Watch(what string, of, maxTokens int, stop func() error) func(tokens, ended, spared int) error {
	a, done := Activity{What: what, Unit: "completion", Of: of}, 0
	p.report(a)
	return func(tokens, ended, spared int) error {
		a.Done, a.Tokens, done = a.Done+ended, a.Tokens+tokens, done+tokens+spared
		a.Part = float64(done) / (float64(of) * float64(maxTokens))
		p.report(a)
		if stop == nil {
			return nil
		}
		return stop()
	}
}
