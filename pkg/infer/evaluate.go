package infer

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rng"
	"grpo/pkg/rundir"
)

// Evaluation has the settings of an evaluation.
type Evaluation struct {
	Seed     uint64
	Template gsm8k.Template
	Answers  gsm8k.Answers  // of the problems
	Judge    Judge          // says what is right; nil = Answers
	Sampling model.Sampling // of the sampled decoding
	Group    int            // sampled completions of a problem; 0 = 1
	Greedy   bool           // decode greedily too
	Right    bool           // record right or wrong of each completion
	PassAt   []int          // the k of pass@k, each at most Group
	Majority []int          // and of maj@k
	Samples  int            // completions to keep as rundir.Sample, per decoding mode
	Finite   bool           // logits that are not finite are an error; a training run records them as a divergence
	Progress model.Progress
	Stop     func() error // its error ends the evaluation; nil = never
}

// EvaluationOf returns the settings of a configuration's evaluations with this many completions of a problem. They come
// from the section eval alone: rollout settings differ between the arms of a sweep, and
// the measurement must not depend on them.
func EvaluationOf(c config.Config, template gsm8k.Template, samples int) Evaluation {
	e := c.Eval
	return Evaluation{Seed: c.Seed, Template: template, Answers: c.Answers(), Greedy: e.Greedy, Samples: e.SaveSamples,
		Group: samples, PassAt: e.PassKs(samples), Majority: e.MajorityKs(samples),
		Sampling: model.Sampling{
			Temperature: e.Temperature, TopP: e.TopP, TopK: e.TopK, MinTokens: e.MinTokens, MaxTokens: e.MaxTokens,
		}}
}

// splitStream gives each split its own random numbers. Those of a set depend on its
// name, not on the other sets.
func splitStream(split string) uint32 {
	own := []string{rundir.SplitVal, rundir.SplitUnseen, rundir.SplitTest, rundir.SplitTrain}
	if i := slices.Index(own, split); i >= 0 {
		return uint32(i)
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, split) // never fails
	return h.Sum32() | 1<<31
}

// Evaluate decodes every problem of a split, e.Group times sampled and, with e.Greedy,
// once greedily, and counts the outcomes. The random numbers depend on seed,
// split, step and the indexes of problem and sample, not on the batch. With the
// error of e.Stop come the counts and samples of the completions that are complete.
func Evaluate(p model.Policy, s model.Sampler, e Evaluation, split string, problems []gsm8k.Problem,
	step int) (rundir.Eval, []EvalSample, error) {
	out := rundir.Eval{Step: step, Split: split}
	if e.Judge == nil {
		e.Judge = answerJudge{e.Answers}
	}
	if _, ok := e.Judge.(answerJudge); ok {
		out.MajorityAnswer, out.MajorityBaseline = e.Answers.Majority(problems)
	}
	prompts := policy.EncodePrompts(p, e.Template, problems)
	group := max(1, e.Group)
	if group > 1 {
		out.Samples = group
	}
	draws := model.Draws{Stream: rng.New(e.Seed, rng.Evaluation), A: uint32(step), C: splitStream(split)}
	if group > 1 { // sample k takes the stream C + k
		draws.C = (draws.C + 1) << 16
	}
	e.Sampling.Stop = model.NewStop(e.Template.Stop, p.Decode)
	modes := []*decodingOf{{name: rundir.DecodingSampled, sampling: e.Sampling, group: group, votes: newVotes(e, group)}}
	if e.Greedy {
		greedy := e.Sampling
		greedy.Greedy, greedy.TopK, greedy.TopP = true, 0, 1
		modes = append(modes, &decodingOf{name: rundir.DecodingGreedy, sampling: greedy, group: 1})
	}
	watch := e.Progress.Watch("evaluating "+split, (group+len(modes)-1)*len(prompts), e.Sampling.MaxTokens, e.Stop)
	for _, m := range modes {
		m.sampling.Watch = watch
	}
	size, err := budget.EvaluatedTogether(group), error(nil)
	for lo := 0; lo < len(prompts) && err == nil; lo += size {
		hi := min(lo+size, len(prompts))
		draws.B = uint32(lo)
		// Decodings with as many completions of a problem read its prompt once.
		for from, to := 0, 0; from < len(modes) && err == nil; from = to {
			var settings []model.Sampling
			for to < len(modes) && modes[to].group == modes[from].group {
				settings = append(settings, modes[to].sampling)
				to++
			}
			var completions [][]model.Completion
			completions, err = model.SampleEach(s, prompts[lo:hi], modes[from].group, settings, draws)
			if err != nil && !(e.Stop != nil && errors.Is(err, e.Stop())) {
				return out, nil, err
			}
			for i, c := range completions {
				m := modes[from+i]
				if e.Finite {
					if err := checkFinite(c, lo*m.group); err != nil {
						return out, nil, fmt.Errorf("evaluate %s, %s: %w", split, m.name, err)
					}
				}
				m.begun = true
				if err := m.judge(p, e, problems[lo:hi], step, c); err != nil {
					return out, nil, fmt.Errorf("evaluate %s, %s: %w", split, m.name, err)
				}
			}
		}
	}
	var kept []EvalSample
	for _, m := range modes {
		for _, x := range m.kept {
			x.Step, x.Split, x.Decoding = step, split, m.name
			kept = append(kept, x)
		}
		counts := m.tally.Counts()
		var right []string
		if e.Right && err == nil {
			right = rundir.RightOf(m.right, m.group)
		}
		if m.sampling.Greedy {
			if m.begun || err == nil {
				out.Greedy, out.RightGreedy = &counts, right
			}
			continue
		}
		out.Sampled, out.Right = counts, right
		if err == nil {
			out.PassAt, out.MajorityAt = m.votes.estimates()
		}
	}
	return out, kept, err
}

// decodingOf collects the completions of one decoding of a split.
type decodingOf struct {
	name     string
	sampling model.Sampling
	group    int // completions of a problem
	begun    bool
	tally    Counter
	right    []bool // of each completion
	votes    votes
	kept     []EvalSample // without step, split and decoding
}

// judge grades the completions of problems and counts those that are complete.
func (m *decodingOf) judge(p model.Policy, e Evaluation, problems []gsm8k.Problem, step int,
	all []model.Completion) error {
	c := Completions{Group: m.group, Step: step}
	for k, x := range all {
		if e.Sampling.Complete(x) {
			c.Texts, c.Sampled = append(c.Texts, p.Decode(x.Tokens)), append(c.Sampled, x)
			c.Problems = append(c.Problems, problems[k/m.group])
		}
	}
	if len(c.Texts) < len(all) {
		c.Group = 1
	}
	judged, err := e.Judge.Judge(c)
	if err != nil {
		return err
	}
	i := 0
	for k, x := range all {
		if !e.Sampling.Complete(x) {
			m.right = append(m.right, false)
			continue
		}
		m.add(e, c.Problems[i], k%m.group == 0, x, c.Texts[i], judged[i])
		i++
	}
	return nil
}

// add counts a complete completion, and keeps it if it may and more are wanted.
func (m *decodingOf) add(e Evaluation, problem gsm8k.Problem, mayKeep bool, c model.Completion, text string, j Judged) {
	m.tally.addJudged(j, c)
	m.right = append(m.right, j.Right)
	m.votes.add(j.Verdict)
	if mayKeep && len(m.kept) < e.Samples {
		sample := NewSample(e.Template, problem, c, text, j.Verdict)
		if sample.Reward = sample.AnswerReward; !math.IsNaN(j.Score) {
			sample.Reward = j.Score
		}
		m.kept = append(m.kept, EvalSample{sample, problem.Question, cmp.Or(sample.Why(), "right")})
	}
}

// checkFinite returns an error if a token was chosen from logits that are not finite. before is the number of
// completions before these.
func checkFinite(completions []model.Completion, before int) error {
	for i, c := range completions {
		for j, p := range c.LogProbs {
			if !model.IsFinite(float64(p)) {
				return fmt.Errorf("completion %d, token %d: the log-probability is %v, because the model's logits are "+
					"not finite (its weights are too large: are they damaged, or those of a run that diverged?)", before+i+1, j+1, p)
			}
		}
	}
	return nil
}

// Counter counts the outcomes of completions.
type Counter struct {
	n, right, wrong, unformatted, truncated int
	length, lengthRight                     int // tokens
	scored                                  int
	score                                   float64 // of the scored ones
}

// addJudged counts a completion of an evaluation.
func (c *Counter) addJudged(j Judged, x model.Completion) {
	c.Add(j.Verdict, x)
	if !math.IsNaN(j.Score) {
		c.scored++
		c.score += j.Score
	}
}

func (c *Counter) Add(v gsm8k.Verdict, x model.Completion) {
	c.n++
	c.length += len(x.Tokens)
	switch {
	case v.Right:
		c.right++
		c.lengthRight += len(x.Tokens)
	case v.Formatted:
		c.wrong++
	default:
		c.unformatted++
	}
	if !x.Ended {
		c.truncated++
	}
}

func (c *Counter) Counts() rundir.Counts {
	ratio := func(sum float64, n int) *float64 {
		if n == 0 {
			return nil
		}
		v := sum / float64(n)
		return &v
	}
	mean := func(sum, n int) *float64 { return ratio(float64(sum), n) }
	n := float64(max(c.n, 1))
	return rundir.Counts{
		N: c.n, CorrectNum: c.right, ErrorNum: c.n - c.right,
		FormattedRight: c.right, FormattedWrong: c.wrong, Unformatted: c.unformatted, Truncated: c.truncated,
		AnswerReward: float64(c.right) / n, FormatReward: float64(c.right+c.wrong) / n, Length: float64(c.length) / n,
		Score:       ratio(c.score, c.scored),
		LengthRight: mean(c.lengthRight, c.right), LengthWrong: mean(c.length-c.lengthRight, c.n-c.right),
	}
}

// NewSample returns the fields of a line of samples.jsonl that depend only on the completion.
func NewSample(t gsm8k.Template, p gsm8k.Problem, c model.Completion, text string, v gsm8k.Verdict) rundir.Sample {
	return rundir.Sample{
		Problem: p.ID, Prompt: t.Render(p.Question), Completion: text, Gold: p.Gold, Ended: c.Ended,
		AnswerReward: float64(count(v.Right)), FormatReward: float64(count(v.Formatted)), Length: len(c.Tokens),
	}
}

// CutWarnings are about the decodings of a split in which a tenth of the completions or more were cut at maxTokens
// tokens: they count as wrong, whatever they were about to answer, unless eval.reward says otherwise.
func CutWarnings(e rundir.Eval, maxTokens int) (out []string) {
	warn := func(decoding string, c rundir.Counts) {
		if c.Truncated > 0 && 10*c.Truncated >= c.N {
			wrong := " and count as wrong"
			if c.Score != nil {
				wrong = ""
			}
			out = append(out, fmt.Sprintf("%d of %s of %s, %s, were cut at %d tokens%s (raise eval.max_tokens)",
				c.Truncated, textutil.Count(c.N, "completion"), e.Split, decoding, maxTokens, wrong))
		}
	}
	warn(rundir.DecodingSampled, e.Sampled)
	if e.Greedy != nil {
		warn(rundir.DecodingGreedy, *e.Greedy)
	}
	return out
}
