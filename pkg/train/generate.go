package train

import (
	"fmt"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/rng"
)

// GenerateOptions say what [Generate] samples.
type GenerateOptions struct {
	Model   config.Model
	Prompt  string
	System  string // first message of a chat
	Raw     bool   // the prompt as it is, without a chat template
	N       int    // completions
	Seed    uint64
	Threads int
	model.Sampling
}

// Generated is a completion of a prompt.
type Generated struct {
	Text   string `json:"text"`
	Tokens []int  `json:"tokens"`
	// LogProbs are the log-probabilities of the tokens, in nats.
	LogProbs []float32 `json:"logprobs"`
	Ended    bool      `json:"ended"` // by an end token
}

// Generate samples completions of one prompt. A model with a chat template gets the
// prompt as a user's message, a TinyLM as a question.
func Generate(o GenerateOptions) ([]Generated, error) {
	var t gsm8k.Template
	if !o.Raw {
		d := config.Data{PromptTemplate: "plain", SystemPrompt: o.System}
		if checkpointOf(o.Model) != nil {
			d.PromptTemplate = "chat"
		}
		var err error
		if t, err = templateOf(d, o.Model); err != nil {
			return nil, fmt.Errorf("%w (--raw sends the prompt as it is)", err)
		}
	}
	net, err := openNetwork(o.Model, o.Seed, o.Threads, 0)
	defer net.close()
	if err != nil {
		return nil, err
	}
	sampler := net.policy.NewSampler()
	defer sampler.Close()
	prompt := encodePrompts(net.policy, t, []gsm8k.Problem{{Question: o.Prompt}})
	out, err := sampler.Sample(prompt, o.N, o.Sampling, model.Draws{Stream: rng.New(o.Seed, rng.Rollout)})
	if err != nil {
		return nil, err
	}
	texts := make([]Generated, len(out))
	for i, c := range out {
		texts[i] = Generated{net.policy.Decode(c.Tokens), c.Tokens, c.LogProbs, c.Ended}
	}
	return texts, nil
}
