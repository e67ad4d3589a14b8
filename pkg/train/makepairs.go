package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/preference"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
)

// PairOptions say which pairs [MakePairs] makes.
type PairOptions struct {
	Config   config.Config // the policy, the sampling of its rollouts, the rewards
	Split    string
	Groups   int // groups of completions, one for each problem drawn; 0 = every problem of the split once
	Pairs    rl.PairOptions
	Threads  int
	Memory   budget.MemoryCheck
	Note     func(string)
	Progress model.Progress
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
	m, err := newPairMaker(ctx, o)
	defer m.close()
	if err != nil {
		return nil, nil, err
	}
	size := o.Config.Rollout.GroupSize
	for at := 0; at < m.groups; {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		n := min(m.groups-at, max(1, m.cfg.Rollout.RolloutBatchSize/size))
		if err := m.batch(at, n); err != nil {
			return nil, nil, err
		}
		at += n
	}
	return m.pairs, m.summary(), nil
}

// pairMaker is the state of [MakePairs].
type pairMaker struct {
	PairOptions
	cfg      config.Config
	groups   int
	problems []gsm8k.Problem
	template gsm8k.Template
	prompts  [][]int
	order    order
	policy.Network
	sampler  model.Sampler
	sampling model.Sampling
	rewards  rewards
	encoder  *policy.PairEncoder

	pairs                             []preference.Pair
	out                               PairsMade
	right                             int
	margin, chosenTokens, otherTokens float64
}

func newPairMaker(ctx context.Context, o PairOptions) (m *pairMaker, err error) {
	c := config.Resolve(o.Config)
	m = &pairMaker{PairOptions: o, cfg: c}
	all, err := ProblemsOf(c)
	if err != nil {
		return m, err
	}
	if m.problems, err = all.Split(o.Split); err != nil {
		return m, err
	}
	for _, cut := range all.Cut {
		o.Note(cut)
	}
	m.groups = cmp.Or(o.Groups, len(m.problems))
	of, err := policy.Of(c)
	if err != nil {
		return m, err
	}
	if m.template, err = of.Template(c.Data); err != nil {
		return m, err
	}
	if m.encoder, err = of.PairEncoder(); err != nil {
		return m, err
	}
	set := promptSplit{Set{o.Split, m.problems}, c.Rollout.SamplingMaxTokens, "rollout.sampling_max_tokens"}
	if err := set.fits(of, m.template); err != nil {
		return m, err
	}
	m.Threads = cmp.Or(m.Threads, runtime.GOMAXPROCS(0))
	c.Eval.MaxTokens, c.Eval.Greedy = c.Rollout.SamplingMaxTokens, false
	var sampled []gsm8k.Problem
	for range c.Rollout.RolloutBatchSize {
		sampled = append(sampled, m.problems[len(sampled)%len(m.problems)])
	}
	if err := o.Memory.Pass(budget.Evaluation(of, c, m.template, sampled, m.Threads)); err != nil {
		return m, err
	}
	if m.rewards, err = openRewards(ctx, c, m.template, m.Threads, o.Note); err != nil {
		return m, err
	}
	if m.Network, err = of.Open(c.Seed, m.Threads, evaluationWork(of, c, len(sampled)), o.Progress); err != nil {
		return m, err
	}
	for _, note := range m.Device.Notes {
		o.Note(note)
	}
	m.sampler, m.sampling = m.Policy.NewSampler(), samplingOf(c.Rollout)
	m.sampling.Watch = o.Progress.Watch("sampling", m.groups*c.Rollout.GroupSize, m.sampling.MaxTokens, ctx.Err)
	m.prompts = policy.EncodePrompts(m.Policy, m.template, m.problems)
	m.order = order{stream: rng.New(c.Seed, rng.Order), n: len(m.problems)}
	m.out = PairsMade{Policy: c.Model.Init, Weights: policy.InitHash(m.Policy), Split: o.Split, Seed: c.Seed, Rule: string(o.Pairs.Rule),
		Groups: m.groups, GroupSize: c.Rollout.GroupSize}
	return m, nil
}

func (m *pairMaker) close() {
	m.rewards.close()
	if m.sampler != nil {
		m.sampler.Close()
	}
	m.Network.Close()
}

// batch samples groups first to first+n-1 and adds their pairs.
func (m *pairMaker) batch(first, n int) error {
	size := m.cfg.Rollout.GroupSize
	problems, prompts := make([]gsm8k.Problem, n), make([][]int, n)
	for i := range problems {
		k := m.order.at(first + i)
		problems[i], prompts[i] = m.problems[k], m.prompts[k]
	}
	completions, err := m.sampler.Sample(prompts, size, m.sampling, model.Draws{
		Stream: rng.New(m.cfg.Seed, rng.Rollout), B: uint32(first)})
	if err != nil {
		return fmt.Errorf("sample pairs: %w", err)
	}
	inputs, lengths := make([]gsm8k.RewardInput, len(completions)), make([]int, len(completions))
	for i, x := range completions {
		noise := gsm8k.RewardNoise(m.cfg.Seed, 0, first+i/size, i%size)
		inputs[i] = rewardInput(m.Policy, m.cfg, x, problems[i/size], new(gsm8k.Verdict), noise)
		lengths[i] = len(x.Tokens)
	}
	byFunction, _, err := m.rewards.compute(m.Pool, inputs, size, 0)
	if err != nil {
		return err
	}
	rewards, err := rl.CombineRewards(byFunction, m.cfg.Reward.RewardWeights)
	if err != nil {
		return err
	}
	for _, r := range rewards {
		m.right += int(one(r > 0))
	}
	for g := range problems {
		lo, hi := g*size, (g+1)*size
		pairs, err := rl.MakePairs(rewards[lo:hi], lengths[lo:hi], size, m.Pairs)
		if err != nil {
			return err
		}
		if len(pairs) == 0 {
			m.unpaired(rewards[lo:hi])
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

// unpaired counts a group without a pair.
func (m *pairMaker) unpaired(rewards []float64) {
	right, wrong := 0, 0
	for _, r := range rewards {
		right, wrong = right+int(one(r > 0)), wrong+int(one(r <= 0))
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
	m.chosenTokens += float64(c.Tokens)
	m.otherTokens += float64(r.Tokens)
	m.out.ChosenTruncated += int(one(!c.Ended))
	m.out.RejectedTruncated += int(one(!r.Ended))
	m.out.Retokenized += int(one(!slices.Equal(read.Chosen, c.TokenIDs))) + int(one(!slices.Equal(read.Rejected, r.TokenIDs)))
}

// summary is the counts of all groups.
func (m *pairMaker) summary() *PairsMade {
	out := m.out
	out.AboveZero = float64(m.right) / float64(max(1, m.groups*m.cfg.Rollout.GroupSize))
	if out.Pairs = len(m.pairs); out.Pairs > 0 {
		n := float64(out.Pairs)
		chosen, rejected, margin := m.chosenTokens/n, m.otherTokens/n, m.margin/n
		out.ChosenLength, out.RejectedLength, out.Margin = &chosen, &rejected, &margin
	}
	return &out
}
