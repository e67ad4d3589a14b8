package train

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rng"
)

// GenerateOptions say what [Generate] samples.
type GenerateOptions struct {
	Config   config.Config // its model, and the prompt template around the prompts
	Prompts  []string
	System   string // first message of a chat, instead of the configuration's
	Raw      bool   // the prompts as they are, without a template; special tokens are parsed
	N        int    // completions of each prompt
	Seed     uint64
	Threads  int
	Memory   budget.MemoryCheck
	Note     func(string) // for the user
	Progress model.Progress
	model.Sampling
}

// Generated is a completion of a prompt.
type Generated struct {
	Prompt string `json:"prompt"` // as given
	Text   string `json:"text"`
	Tokens []int  `json:"tokens"`
	// LogProbs are the log-probabilities of the tokens, in nats.
	LogProbs []float32 `json:"logprobs"`
	Ended    bool      `json:"ended"` // by an end token
}

// Generate samples N completions of each prompt. Prompts are questions to the configuration's prompt
// template; where that is the default and the model has a chat template, they are a user's messages.
func Generate(o GenerateOptions) ([]Generated, error) {
	c := config.Resolve(o.Config)
	m, err := policy.Of(c)
	if err != nil {
		return nil, err
	}
	t, err := o.template(m, c)
	if err != nil {
		return nil, err
	}
	tok := m.Tokenizer
	if err := tok.Special().Check(); err != nil {
		o.Note(err.Error())
	}
	problems, prompts := make([]gsm8k.Problem, len(o.Prompts)), make([][]int, len(o.Prompts))
	for i, p := range o.Prompts {
		problems[i].Question = p
		if o.Raw {
			prompts[i] = model.EncodeRaw(tok, p)
		}
	}
	if !o.Raw {
		prompts = policy.EncodePrompts(tok, t, problems)
	}
	for i, ids := range prompts {
		switch context := m.Context; {
		case len(ids) == 0:
			return nil, config.Invalid(fmt.Errorf("encode prompt %d: it has no tokens, and this model has no start token", i+1))
		case context > 0 && len(ids)+o.MaxTokens > context:
			return nil, config.Invalid(fmt.Errorf("encode prompt %d: its %d tokens and up to %d new ones exceed the model's "+
				"context of %d tokens (shorten it, or ask for fewer)", i+1, len(ids), o.MaxTokens, context))
		}
	}
	o.Threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	c.Eval.MaxTokens, c.Eval.Greedy = o.MaxTokens, false
	all := slices.Repeat(problems, o.N)
	if err := o.Memory.Pass(budget.Evaluation(m, c, t, all, o.Threads)); err != nil {
		return nil, err
	}
	net, err := m.Open(o.Seed, o.Threads, evaluationWork(m, c, len(all)), o.Progress)
	defer net.Close()
	if err != nil {
		return nil, err
	}
	sampler := net.Policy.NewSampler()
	defer sampler.Close()
	o.Watch = o.Progress.Watch("sampling", len(all), o.MaxTokens, nil)
	out, err := sampler.Sample(prompts, o.N, o.Sampling, model.Draws{Stream: rng.New(o.Seed, rng.Rollout)})
	if err != nil {
		return nil, err
	}
	if err := checkFinite(out); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	texts := make([]Generated, len(out))
	for i, x := range out {
		texts[i] = Generated{o.Prompts[i/o.N], net.Policy.Decode(x.Tokens), x.Tokens, x.LogProbs, x.Ended}
	}
	return texts, nil
}

// template is the template around the prompts.
func (o GenerateOptions) template(m *policy.Model, c config.Config) (t gsm8k.Template, err error) {
	if o.Raw {
		return t, nil
	}
	if m.IsDecoder() && c.Data.PromptTemplate == config.Default().Data.PromptTemplate {
		c.Data.PromptTemplate = "chat"
	}
	if o.System != "" {
		if c.Data.PromptTemplate != "chat" {
			return t, config.Invalid(fmt.Errorf("a system prompt is for a chat, but the prompt template is %s", c.Data.PromptTemplate))
		}
		c.Data.SystemPrompt = o.System
	}
	if t, err = m.Template(c.Data); err != nil {
		return t, fmt.Errorf("%w (--raw sends the prompt as it is)", err)
	}
	return t, nil
}
