// Package infer samples completions, grades them and computes their rewards: what training does before each update and
// in its evaluations, and the commands that do only that (eval, generate, data pairs, data show, reward try).
package infer

import (
	"cmp"
	"fmt"
	"slices"

	"grpo/internal/cores"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// Options are what the commands need.
type Options struct {
	Config   config.Config
	Threads  int                // of the CPU; 0 = one for each fast core
	Note     func(string)       // gets lines for the user
	Memory   budget.MemoryCheck // nil = no check
	Progress model.Progress
}

// session is a configuration's model with its prompts, and when it is open with a sampler.
type session struct {
	Options  // the configuration is resolved
	model    *policy.Model
	problems *dataset.Splits
	template gsm8k.Template
	policy.Network
	sampler model.Sampler
}

// newSession resolves the model, without its weights.
func newSession(o Options) (s *session, err error) {
	o.Config, o.Threads = config.Resolve(o.Config), cmp.Or(o.Threads, cores.Threads())
	s = &session{Options: o}
	s.model, err = policy.Of(o.Config)
	return s, err
}

// withProblems is newSession with the problems, on which there may be notes, and the template of their prompts.
func withProblems(o Options) (*session, error) {
	s, err := newSession(o)
	if err != nil {
		return nil, err
	}
	if s.problems, err = dataset.Of(s.Config); err != nil {
		return nil, err
	}
	for _, note := range s.problems.Notes {
		s.Note(note)
	}
	s.template, err = s.model.Template(s.Config.Data)
	return s, err
}

// open opens the model, with this seed, to sample up to maxTokens tokens for each problem of the largest batch. Close
// the session even after an error.
func (s *session) open(seed uint64, maxTokens int, greedy bool, batches ...[]gsm8k.Problem) (err error) {
	c, largest := s.Config, 0
	c.Eval.MaxTokens, c.Eval.Greedy = maxTokens, greedy
	for _, problems := range batches {
		largest = max(largest, len(problems)*c.Eval.LastSamples())
		if err := s.Memory.Pass(budget.Evaluation(s.model, c, s.template, problems, s.Threads)); err != nil {
			return err
		}
	}
	tokens := maxTokens/2 + 1 // lengths are unknown: half the limit
	work := s.model.Size.Forward(2*largest*tokens, largest*tokens).Nominal
	if s.Network, err = s.model.Open(seed, s.Threads, work, s.Progress); err != nil {
		return err
	}
	for _, note := range s.Device.Notes {
		s.Note(note)
	}
	s.sampler = s.Policy.NewSampler()
	return nil
}

func (s *session) close() {
	if s.sampler != nil {
		s.sampler.Close()
	}
	s.Network.Close()
}

// PromptSet is a set of problems with the limit of their completions in tokens, and the key that sets it.
type PromptSet struct {
	dataset.Set
	MaxTokens int
	Key       string
}

// PromptSets are all sets of a run.
func PromptSets(c config.Config, p *dataset.Splits) []PromptSet {
	out := []PromptSet{rolloutSet(c, dataset.Set{Name: rundir.SplitTrain, Problems: p.Train})}
	for _, s := range p.Evaluated() {
		out = append(out, evalSet(c, s))
	}
	return out
}

func rolloutSet(c config.Config, s dataset.Set) PromptSet {
	return PromptSet{s, c.Rollout.SamplingMaxTokens, "rollout.sampling_max_tokens"}
}

func evalSet(c config.Config, s dataset.Set) PromptSet {
	return PromptSet{s, c.Eval.MaxTokens, "eval.max_tokens"}
}

// CheckContext returns an error if a prompt with its completion is longer than the model's context.
func CheckContext(m *policy.Model, t gsm8k.Template, sets ...PromptSet) error {
	for _, s := range sets {
		if m.Context == 0 || len(s.Problems) == 0 {
			continue
		}
		lengths := policy.PromptLengths(m.Tokenizer, t, s.Problems)
		longest := slices.Max(lengths)
		if longest+s.MaxTokens <= m.Context {
			continue
		}
		p, fix := s.Problems[slices.Index(lengths, longest)], ""
		if len(t.Examples) > 0 {
			fix = ", use fewer worked examples (data.few_shot)"
		}
		return config.Invalid(fmt.Errorf("encode the prompts of the split %q: that of problem %q has %d tokens; "+
			"with %s (%d) it exceeds the model's context of %d tokens (shorten or remove the problem%s, or lower %s)",
			s.Name, p.ID, longest, s.Key, s.MaxTokens, m.Context, fix, s.Key))
	}
	return nil
}
