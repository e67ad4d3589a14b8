package infer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rng"
	"grpo/pkg/rundir"
)

// AuditOptions say what [Audit] samples: the initial weights of the configuration twice, each trained policy once.
type AuditOptions struct {
	Options
	Trained  []Trained
	Split    string
	Problems int // the first ones of the split; 0 = all
	Samples  int // completions of each problem
	// Logs has what was sampled before, and keeps what is sampled now.
	Logs *rundir.AuditLogs
}

// Trained is a policy to audit: the configuration's model, with its seed.
type Trained struct {
	Name     string // for messages
	Config   config.Config
	InitHash string // of the weights that it was trained from; empty if unknown
}

// Audited is what [Audit] sampled, with the draws of all problems in one.
type Audited struct {
	Problems []gsm8k.Problem
	Network  string               // in words
	Base     [2]rundir.AuditDraw  // of the initial weights, independent of each other
	Trained  []rundir.AuditDraw   // of each trained policy
	Drift    []*rundir.AuditDrift // likewise
}

// Numbers of the draws of a seed. Those of the initial weights have the seed 0, so that audits of other seeds share
// them.
const (
	firstBaseDraw = iota + 1
	secondBaseDraw
	trainedDraw
	driftDraw
)

const (
	// auditBatch is the number of completions that are sampled together, and lost when an audit is interrupted.
	auditBatch = 1024
	// driftProblems, driftDecoder are the problems for the drift, of a TinyLM and of a Llama or Qwen network, and
	// driftBatch the completions that are scored together.
	driftProblems, driftDecoder, driftBatch = 256, 32, 32
)

// audit is an [Audit] in progress.
type audit struct {
	AuditOptions
	ctx      context.Context
	base     *session
	baseKey  string // of the initial weights
	problems []gsm8k.Problem
	prompts  [][]int
	sampling model.Sampling
	settings string
	judge    Judge
	draw     int // the current one, of draws
	draws    int
}

// Audit samples what the logs lack, a batch of problems at a time: a problem's completions depend neither on the batch
// nor on the other policies. It ends with ctx, between two lines of the logs.
func Audit(ctx context.Context, o AuditOptions) (*Audited, error) {
	s, err := withProblems(o.Options)
	if err != nil {
		return nil, err
	}
	defer s.close()
	a := &audit{AuditOptions: o, ctx: ctx, base: s, draws: 2 + len(o.Trained)}
	if a.problems, err = s.problems.Split(o.Split); err != nil {
		return nil, err
	}
	if n := len(a.problems); o.Problems > 0 && o.Problems < n {
		a.problems = a.problems[:o.Problems]
		o.Note(fmt.Sprintf("split %s: using the first %d of %d problems (--problems)", o.Split, o.Problems, n))
	}
	if err := s.model.CheckEnd(); err != nil {
		return nil, err
	}
	set := evalSet(s.Config, dataset.Set{Name: o.Split, Problems: a.problems})
	if err := CheckContext(s.model, s.template, set); err != nil {
		return nil, err
	}
	if a.judge, err = OpenJudge(ctx, s.Config, s.template, s.Threads, o.Note); err != nil {
		return nil, err
	}
	defer a.judge.Close()
	if err := a.open(); err != nil {
		return nil, err
	}
	out := &Audited{Problems: a.problems, Network: fmt.Sprint(s.model.Size)}
	for i := range out.Base {
		if out.Base[i], err = a.sample(s, a.baseKey, "the initial policy", 0, firstBaseDraw+i); err != nil {
			return nil, err
		}
	}
	for _, t := range o.Trained {
		draw, drift, err := a.trained(t)
		if err != nil {
			return nil, err
		}
		out.Trained, out.Drift = append(out.Trained, draw), append(out.Drift, drift)
	}
	return out, nil
}

// open opens the initial policy, and checks that the runs began with it.
func (a *audit) open() error {
	s := a.base
	s.Config.Eval.Samples, s.Config.Eval.FinalSamples = a.Samples, 0 // for the bound of the memory
	memory := s.Memory
	s.Memory = func(m budget.Memory) error {
		m.Parts = append(slices.Clip(m.Parts), budget.Part{What: "the weights of the trained policy",
			Bytes: 3 * s.model.Size.ParamBytes()})
		return memory.Pass(m)
	}
	if err := s.open(s.Config.Seed, s.Config.Eval.MaxTokens, false, a.problems[:a.together(len(a.problems))]); err != nil {
		return err
	}
	a.baseKey = initialKey(policy.InitHash(s.Policy))
	for _, t := range a.Trained {
		if own := initialKey(t.InitHash); own != "" && own != a.baseKey {
			return config.Invalid(fmt.Errorf("audit %s: it was trained from other weights (%.8s) than model.init (%s) has now "+
				"(%.8s): was that changed? (with model.init=random, audit one run at a time)", t.Name, own, s.Config.Model.Init,
				a.baseKey))
		}
	}
	a.sampling = EvaluationOf(s.Config, s.template, a.Samples).Sampling
	a.prompts = policy.EncodePrompts(s.Policy, s.template, a.problems)
	h := sha256.New()
	e := a.sampling
	_, _ = fmt.Fprintf(h, "%s %d %v %v %d %d %d\n", a.Split, a.Samples, e.Temperature, e.TopP, e.TopK, e.MinTokens,
		e.MaxTokens) // never fails
	if stop := s.template.Stop; len(stop) > 0 {
		_, _ = fmt.Fprintf(h, "stop %q\n", stop)
	}
	for i, p := range a.problems {
		_, _ = fmt.Fprintf(h, "%v %q\n", a.prompts[i], p.Gold)
	}
	if err := a.base.Config.WriteJudge(h); err != nil {
		return err
	}
	a.settings = hex.EncodeToString(h.Sum(nil))
	return nil
}

// initialKey is the hash of initial weights without adapters, which compute nothing before they are trained.
func initialKey(hash string) string {
	frozen, _, _ := strings.Cut(hash, "+")
	return frozen
}

// together is the number of the next problems that are sampled together, of those that are left.
func (a *audit) together(left int) int { return min(left, max(1, auditBatch/a.Samples)) }

// trained samples a trained policy and compares it with the initial one.
func (a *audit) trained(t Trained) (draw rundir.AuditDraw, drift *rundir.AuditDrift, err error) {
	o := a.base.Options
	o.Config, o.Memory = t.Config, nil // the bound is part of the initial policy's
	s, err := newSession(o)
	if err != nil {
		return draw, nil, err
	}
	defer s.close()
	s.template = a.base.template
	if err := s.open(s.Config.Seed, a.sampling.MaxTokens, false, a.problems[:a.together(len(a.problems))]); err != nil {
		return draw, nil, err
	}
	if !slices.EqualFunc(policy.EncodePrompts(s.Policy, s.template, a.problems), a.prompts, slices.Equal) {
		return draw, nil, config.Invalid(fmt.Errorf("audit %s: its tokenizer is another than the initial policy's", t.Name))
	}
	weights := policy.InitHash(s.Policy)
	if draw, err = a.sample(s, weights, t.Name, s.Config.Seed, trainedDraw); err != nil {
		return draw, nil, err
	}
	for i := range a.Logs.Drifts {
		d := &a.Logs.Drifts[i]
		if d.Weights == weights && d.Base == a.baseKey && d.Settings == a.settings && d.Seed == s.Config.Seed {
			return draw, d, nil
		}
	}
	if drift, err = a.drift(s, weights); err != nil {
		return draw, nil, fmt.Errorf("score the completions of %s: %w", t.Name, err)
	}
	return draw, drift, a.Logs.Drift(*drift)
}

// sample is one draw of a policy: from the logs what is there, and the rest sampled.
func (a *audit) sample(s *session, weights, who string, seed uint64, draw int) (all rundir.AuditDraw, err error) {
	a.draw++
	all = rundir.AuditDraw{Weights: weights, Settings: a.settings, Seed: seed, Draw: draw}
	var parts []*rundir.AuditDraw
	missing := 0
	for from := 0; from < len(a.problems); {
		n := a.together(len(a.problems) - from)
		part := a.found(all, from, n)
		if parts = append(parts, part); part == nil {
			missing += n
		}
		from += n
	}
	opt := a.samplingOf(s)
	if missing > 0 {
		what := fmt.Sprintf("draw %d of %d, %s", a.draw, a.draws, who)
		opt.Watch = a.Progress.Watch(what, missing*a.Samples, opt.MaxTokens, a.stopped)
	}
	for _, part := range parts {
		if part == nil {
			from := len(all.Votes)
			if err := a.stopped(); err != nil {
				return all, err
			}
			one, err := a.batch(s, opt, all, from)
			if err != nil {
				return all, fmt.Errorf("sample %s: %w", who, err)
			}
			if err := a.Logs.Draw(one); err != nil {
				return all, err
			}
			part = &one
		}
		all.Append(*part)
	}
	return all, nil
}

// samplingOf are the settings of sampling a policy, which ends at the texts of data.stop.
func (a *audit) samplingOf(s *session) model.Sampling {
	opt := a.sampling
	opt.Stop = model.NewStop(s.template.Stop, s.Policy.Decode)
	return opt
}

// stopped is the error of an audit that is to end.
func (a *audit) stopped() error {
	if err := a.ctx.Err(); err != nil {
		return rundir.ErrInterrupted
	}
	return nil
}

// found is the part of a draw in the logs that has n problems from this one on.
func (a *audit) found(of rundir.AuditDraw, from, n int) *rundir.AuditDraw {
	i := slices.IndexFunc(a.Logs.Draws, func(d rundir.AuditDraw) bool {
		return d.Weights == of.Weights && d.Settings == of.Settings && d.Seed == of.Seed && d.Draw == of.Draw &&
			d.From == from && len(d.Votes) == n && d.Samples() == a.Samples
	})
	if i < 0 {
		return nil
	}
	part := a.Logs.Draws[i]
	return &part
}

// batch samples the completions of a batch of problems, which begins with the problem from.
func (a *audit) batch(s *session, opt model.Sampling, of rundir.AuditDraw, from int) (rundir.AuditDraw, error) {
	n := a.together(len(a.problems) - from)
	of.From, of.Votes, of.Counts = from, make([][]int, n), rundir.Counts{}
	completions, err := s.sampler.Sample(a.prompts[from:from+n], a.Samples, opt, model.Draws{
		Stream: rng.New(of.Seed, rng.Audit), A: uint32(of.Draw), B: uint32(from)})
	if err == nil {
		err = checkFinite(completions, from*a.Samples)
	}
	if err != nil {
		return of, err
	}
	c := Completions{Sampled: completions, Group: a.Samples}
	for i, x := range completions {
		c.Texts = append(c.Texts, s.Policy.Decode(x.Tokens))
		c.Problems = append(c.Problems, a.problems[from+i/a.Samples])
	}
	judged, err := a.judge.Judge(c)
	if err != nil {
		return of, err
	}
	var tally Counter
	answers := a.base.Config.Answers()
	for i := range of.Votes {
		given := newAnswers(answers)
		for k := i * a.Samples; k < (i+1)*a.Samples; k++ {
			tally.addJudged(judged[k], completions[k])
			given.add(judged[k].Verdict)
		}
		of.Votes[i] = []int{given.correct()}
		for answer, n := range given.count {
			if answer != given.right {
				of.Votes[i] = append(of.Votes[i], n)
			}
		}
		slices.SortFunc(of.Votes[i][1:], func(x, y int) int { return y - x })
	}
	of.Counts = tally.Counts()
	return of, nil
}

// drift samples one completion of each of some problems from a trained policy and scores it under both policies.
func (a *audit) drift(s *session, weights string) (*rundir.AuditDrift, error) {
	n := min(len(a.problems), driftProblems)
	if s.model.IsDecoder() {
		n = min(n, driftDecoder)
	}
	d := &rundir.AuditDrift{Weights: weights, Base: a.baseKey, Settings: a.settings, Seed: s.Config.Seed}
	s.Progress.Do("comparing with the initial policy")
	opt := a.samplingOf(s)
	opt.Watch = func(int, int, int) error { return a.stopped() }
	completions, err := s.sampler.Sample(a.prompts[:n], 1, opt, model.Draws{
		Stream: rng.New(d.Seed, rng.Audit), A: driftDraw})
	if err != nil {
		return nil, err
	}
	var logProbs [2][]float64
	entropies := [2]*[]float64{&d.BaseEntropy, &d.Entropy}
	for i, p := range []model.Policy{a.base.Policy, s.Policy} {
		scorer, err := p.NewScorer(opt.Temperature)
		if err != nil {
			return nil, err
		}
		logProbs[i], *entropies[i], err = a.score(scorer, completions)
		if err = errors.Join(err, scorer.Close()); err != nil {
			return nil, err
		}
	}
	for i, c := range completions {
		d.Tokens = append(d.Tokens, len(c.Tokens))
		d.LogRatio = append(d.LogRatio, logProbs[1][i]-logProbs[0][i])
	}
	return d, a.distance(s, d)
}

// score sums the log-probabilities and the entropies of the tokens of each completion.
func (a *audit) score(scorer model.Scorer, completions []model.Completion) (logProbs, entropies []float64, err error) {
	for from := 0; from < len(completions); from += driftBatch {
		if err := a.stopped(); err != nil {
			return nil, nil, err
		}
		batch := &model.Batch{}
		for i, c := range completions[from:min(from+driftBatch, len(completions))] {
			batch.Prompts = append(batch.Prompts, a.prompts[from+i])
			batch.Rows = append(batch.Rows, model.Row{Prompt: i, Tokens: c.Tokens})
		}
		m, err := scorer.Score(batch)
		if err != nil {
			return nil, nil, err
		}
		for r, row := range batch.Rows {
			p, h := 0.0, 0.0
			for t := range row.Tokens {
				p, h = p+m.LogProbs[r*m.T+t], h+m.Entropy[r*m.T+t]
			}
			logProbs, entropies = append(logProbs, p), append(entropies, h)
		}
	}
	return logProbs, entropies, nil
}

// distance compares the weights, where both policies have the same ones.
func (a *audit) distance(s *session, d *rundir.AuditDrift) error {
	if s.model.LoRA.Rank > 0 || a.base.model.LoRA.Rank > 0 || a.base.Params.Match(s.Params) != nil {
		return nil
	}
	changed, distance, err := s.Params.DistanceFrom(a.base.Params, rundir.WeightChanged)
	if err != nil {
		return err
	}
	d.Changed, d.Distance = &changed, &distance
	return nil
}
