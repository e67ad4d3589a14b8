package decoder

import (
	"fmt"

	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// NewRewardModel returns a reward model with a copy of the policy's network and a head of zeros, as
// a critic whose head has no bias: the value of the state after the last token is the reward. Its
// parameters are those of [hf.Folder.Reward]'s network. The policy must not have adapters.
func (p *Policy) NewRewardModel(o model.AdamWOptions, checkpointing bool) model.Critic {
	c := *p.net.Config
	c.Score, c.Tied = true, true
	net := NewNetwork(&c)
	at := map[string][]float32{}
	for _, t := range p.net.Params.Tensors() {
		at[t.Name] = t.Data
	}
	for _, t := range net.Params.Tensors() {
		copy(t.Data, at[t.Name]) // but for the head's, which the policy does not have
	}
	if p.net.BF16 {
		net.useBF16()
	}
	return trainCritic(net, net.Params, p.on, o, checkpointing)
}

// RewardModel computes rewards of token sequences. Its weights do not change.
type RewardModel struct {
	c critic
	// Hash is a checksum of the weights.
	Hash string
}

// OpenRewardModel reads a reward model: a Hugging Face folder of a network for sequence
// classification with one label.
func OpenRewardModel(path string, on *kernel.Pool) (*RewardModel, error) {
	c, err := hf.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if !c.Config.Score {
		return nil, fmt.Errorf("open reward model %s: it is a language model, which has no %s (train a reward model with "+
			"\"grpo reward-model\")", path, hf.ScoreWeight)
	}
	net, err := Load(c)
	if err != nil {
		return nil, err
	}
	return &RewardModel{critic{on: newCPU(on), net: net, params: net.Params}, net.Params.Hash()}, nil
}

// Values is [model.Critic.Values].
func (m *RewardModel) Values(batch *model.Batch) (*model.ValueMatrix, error) {
	return m.c.Values(batch)
}

// Close implements io.Closer.
func (m *RewardModel) Close() error { return nil }
