package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/preference"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
)

// PairOptions say which pairs [MakePairs] makes: the policy, the sampling of its rollouts and the rewards are those of
// the configuration.
type PairOptions struct {
	Options
	Split  string
	Groups int // groups of completions, one for each problem drawn; 0 = every problem of the split once
	Pairs  rl.PairOptions
}

// PairsMade counts what [MakePairs] sampled. Every group is in Paired, AllRight, AllWrong, Unscored or
// OnlyDropped.
type PairsMade struct {
	File        string  `json:"file"`
	Policy      string  `json:"policy"`        // model.init
	Weights     string  `json:"policy_sha256"` // of its weights
	Split       string  `json:"split"`
	Seed        uint64  `json:"seed"`
	Rule        string  `json:"rule"`
	Groups      int     `json:"groups"`
	GroupSize   int     `json:"group_size"`
	AboveZero   float64 `json:"above_zero"`    // share of completions with a reward above 0
	Paired      int     `json:"groups_paired"` // with at least one pair
	AllRight    int     `json:"groups_all_right"`
	AllWrong    int     `json:"groups_all_wrong"`
	Unscored    int     `json:"groups_unscored"`     // without two completions that have a reward
	OnlyDropped int     `json:"groups_only_dropped"` // all of their pairs are in Dropped
	Pairs       int     `json:"pairs"`
	Dropped     int     `json:"pairs_dropped"` // identical, empty, or with a prompt that has other tokens as text
	FirstBad    string  `json:"first_dropped,omitempty"`
	// Lengths are means over the pairs, in tokens with the end token; null without pairs.
	ChosenLength      *float64 `json:"chosen_length"`
	RejectedLength    *float64 `json:"rejected_length"`
	Margin            *float64 `json:"margin"` // mean difference of the rewards
	ChosenTruncated   int      `json:"chosen_truncated"`
	RejectedTruncated int      `json:"rejected_truncated"`
	// Retokenized counts completions of pairs whose text has other tokens than were sampled.
	Retokenized int `json:"retokenized"`
}

// MakePairs samples a group of completions for each of a number of problems, as a run with the same
// configuration does in its rollouts, computes their rewards and pairs them. Problems are drawn in
// the order of the seed, again from the start when all were drawn. The first groups do not depend on
// their number.
func MakePairs(ctx context.Context, o PairOptions) ([]preference.Pair, *PairsMade, error) {
	s, err := withProblems(o.Options)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	c := s.Config
	m := &pairMaker{session: s, rule: o.Pairs}
	if m.set, err = s.problems.Split(o.Split); err != nil {
		return nil, nil, err
	}
	if m.encoder, err = s.model.PairEncoder(); err != nil {
		return nil, nil, err
	}
	set := rolloutSet(c, dataset.Set{Name: o.Split, Problems: m.set})
	if err := CheckContext(s.model, s.template, set); err != nil {
		return nil, nil, err
	}
	if m.rewards, err = OpenRewards(ctx, c, s.template, s.Threads, o.Note); err != nil {
		return nil, nil, err
	}
	defer m.rewards.Close()
	groups, size := cmp.Or(o.Groups, len(m.set)), c.Rollout.GroupSize
	m.together = max(1, c.Rollout.RolloutBatchSize/size)
	longest := slices.SortedFunc(slices.Values(m.set), func(a, b gsm8k.Problem) int {
		return cmp.Compare(len(b.Question), len(a.Question))
	})
	s.Config.Eval.Samples, s.Config.Eval.FinalSamples = size, 0 // the memory of a batch is that of an evaluation
	if err := s.open(c.Seed, set.MaxTokens, false, longest[:min(m.together, groups, len(longest))]); err != nil {
		return nil, nil, err
	}
	m.sampling = RolloutSampling(c.Rollout, s.template, s.Policy)
	m.sampling.Watch = o.Progress.Watch("sampling", groups*size, m.sampling.MaxTokens, ctx.Err)
	m.prompts = policy.EncodePrompts(s.Policy, s.template, m.set)
	m.order = rng.Epochs{Stream: rng.New(c.Seed, rng.Order), N: len(m.set)}
	m.out = PairsMade{Policy: c.Model.Init, Weights: policy.InitHash(s.Policy), Split: o.Split, Seed: c.Seed,
		Rule: string(o.Pairs.Rule), Groups: groups, GroupSize: size}
	for at := 0; at < groups; {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		n := min(groups-at, m.together)
		if err := m.batch(at, n); err != nil {
			return nil, nil, err
		}
		at += n
	}
	return m.pairs, m.summary(), nil
}

// pairMaker is the state of [MakePairs].
type pairMaker struct {
	*session
	rule     rl.PairOptions
	set      []gsm8k.Problem // the problems that are drawn
	prompts  [][]int         // theirs
	order    rng.Epochs
	sampling model.Sampling
	rewards  *Rewards
	encoder  *policy.PairEncoder
	together int // groups that are sampled at once

	pairs                    []preference.Pair
	out                      PairsMade
	right                    int     // completions with a reward above 0
	margin, chosen, rejected float64 // sums over the pairs; the last two in tokens
}

// batch samples groups first to first+n-1 and adds their pairs.
func (m *pairMaker) batch(first, n int) error {
	size := m.out.GroupSize
	problems, prompts := make([]gsm8k.Problem, n), make([][]int, n)
	for i := range problems {
		k := m.order.At(first + i)
		problems[i], prompts[i] = m.set[k], m.prompts[k]
	}
	completions, err := m.sampler.Sample(prompts, size, m.sampling, model.Draws{
		Stream: rng.New(m.Config.Seed, rng.Rollout), B: uint32(first)})
	if err != nil {
		return fmt.Errorf("sample pairs: %w", err)
	}
	inputs, scored, err := m.rewards.Score(m.Pool, m.Policy, completions, problems, 0, first, 0)
	if err != nil {
		return err
	}
	lengths := make([]int, len(completions))
	for i, r := range scored.Rewards {
		lengths[i] = inputs[i].Tokens
		m.right += count(r > 0)
	}
	for g := range problems {
		lo, hi := g*size, (g+1)*size
		rewards := scored.Rewards[lo:hi]
		pairs, err := rl.MakePairs(rewards, lengths[lo:hi], size, m.rule)
		if err != nil {
			return err
		}
		if len(pairs) == 0 {
			m.unpaired(rewards)
			continue
		}
		before := len(m.pairs)
		for k, p := range pairs {
			id := fmt.Sprintf("%s.%d.%d", problems[g].ID, first+g+1, k+1)
			m.add(id, m.template.Render(problems[g].Question), prompts[g], inputs[lo:hi], p)
		}
		if len(m.pairs) > before {
			m.out.Paired++
		} else {
			m.out.OnlyDropped++
		}
	}
	return nil
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// unpaired counts a group without a pair.
func (m *pairMaker) unpaired(rewards []float64) {
	right, wrong := 0, 0
	for _, r := range rewards {
		right, wrong = right+count(r > 0), wrong+count(r <= 0)
	}
	switch {
	case right+wrong < 2:
		m.out.Unscored++
	case right > wrong:
		m.out.AllRight++
	default:
		m.out.AllWrong++
	}
}

// errPrompt is a prompt whose text has other tokens than the model was sampled with.
var errPrompt = errors.New("the prompt's text has other tokens than the prompt (a special token in the question, " +
	"or a chat template without the model's start token)")

// add adds a pair of a group's completions, unless a reader of the file would refuse it.
func (m *pairMaker) add(id, prompt string, tokens []int, group []gsm8k.RewardInput, p rl.Pair) {
	c, r := group[p.Chosen], group[p.Rejected]
	pair := preference.Pair{ID: id, Prompt: preference.Text{Plain: prompt}, Margin: &p.Margin,
		Chosen: preference.Text{Plain: c.Completion}, Rejected: preference.Text{Plain: r.Completion},
		ChosenTruncated: !c.Ended, RejectedTruncated: !r.Ended}
	err := pair.Check()
	var read policy.Pair
	if err == nil {
		read, err = m.encoder.Encode(pair)
	}
	if err == nil && !slices.Equal(read.Prompt, tokens) {
		err = errPrompt
	}
	if err != nil {
		m.out.Dropped++
		m.out.FirstBad = cmp.Or(m.out.FirstBad, id+": "+err.Error())
		return
	}
	m.pairs = append(m.pairs, pair)
	m.margin += p.Margin
	m.chosen, m.rejected = m.chosen+float64(c.Tokens), m.rejected+float64(r.Tokens)
	m.out.ChosenTruncated += count(!c.Ended)
	m.out.RejectedTruncated += count(!r.Ended)
	m.out.Retokenized += count(!slices.Equal(read.Chosen, c.TokenIDs)) + count(!slices.Equal(read.Rejected, r.TokenIDs))
}

// summary is the counts of all groups.
func (m *pairMaker) summary() *PairsMade {
	out := m.out
	out.AboveZero = float64(m.right) / float64(max(1, out.Groups*out.GroupSize))
	if out.Pairs = len(m.pairs); out.Pairs > 0 {
		n := float64(out.Pairs)
		chosen, rejected, margin := m.chosen/n, m.rejected/n, m.margin/n
		out.ChosenLength, out.RejectedLength, out.Margin = &chosen, &rejected, &margin
	}
	return &out
}
