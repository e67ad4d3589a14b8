package infer

import (
	"fmt"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rng"
)

// GenerateOptions say what [Generate] samples, with the configuration's model and the prompt template around the
// prompts.
type GenerateOptions struct {
	Options
	Prompts []string
	System  string // first message of a chat, instead of the configuration's
	Raw     bool   // the prompts as they are, without a template; special tokens are parsed
	N       int    // completions of each prompt
	Seed    uint64
	model.Sampling
}

// Generated is a completion of a prompt.
type Generated struct {
	Prompt string `json:"prompt"` // as given
	Text   string `json:"text"`
	Tokens []int  `json:"tokens"`
	// LogProbs are the log-probabilities of the tokens, in nats.
	LogProbs []float32 `json:"logprobs"`
	Ended    bool      `json:"ended"` // by an end token or at data.stop
}

// Generate samples N completions of each prompt. Prompts are questions to the configuration's prompt
// template; where that is the default and the model has a chat template, they are a user's messages.
func Generate(o GenerateOptions) ([]Generated, error) {
	s, err := newSession(o.Options)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.askedTemplate(o); err != nil {
		return nil, err
	}
	tok := s.model.Tokenizer
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
		prompts = policy.EncodePrompts(tok, s.template, problems)
	}
	for i, ids := range prompts {
		switch context := s.model.Context; {
		case len(ids) == 0:
			return nil, config.Invalid(fmt.Errorf("encode prompt %d: it has no tokens, and this model has no start token", i+1))
		case context > 0 && len(ids)+o.MaxTokens > context:
			return nil, config.Invalid(fmt.Errorf("encode prompt %d: its %d tokens and up to %d new ones exceed the model's "+
				"context of %d tokens (shorten it, or ask for fewer)", i+1, len(ids), o.MaxTokens, context))
		}
	}
	s.Config.Eval.Samples, s.Config.Eval.FinalSamples = o.N, 0 // the memory is that of an evaluation
	if err := s.open(o.Seed, o.MaxTokens, false, problems); err != nil {
		return nil, err
	}
	o.Stop = model.NewStop(s.template.Stop, s.Policy.Decode)
	o.Watch = o.Progress.Watch("sampling", len(problems)*o.N, o.MaxTokens, nil)
	out, err := s.sampler.Sample(prompts, o.N, o.Sampling, model.Draws{Stream: rng.New(o.Seed, rng.Rollout)})
	if err != nil {
		return nil, err
	}
	if err := checkFinite(out, 0); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	texts := make([]Generated, len(out))
	for i, x := range out {
		texts[i] = Generated{o.Prompts[i/o.N], s.Policy.Decode(x.Tokens), x.Tokens, x.LogProbs, x.Ended}
	}
	return texts, nil
}

// askedTemplate sets the template around the prompts.
func (s *session) askedTemplate(o GenerateOptions) (err error) {
	if o.Raw {
		return nil
	}
	d := s.Config.Data
	if s.model.IsDecoder() && d.PromptTemplate == config.Default().Data.PromptTemplate {
		d.PromptTemplate = "chat"
	}
	if o.System != "" {
		if d.PromptTemplate != "chat" {
			return config.Invalid(fmt.Errorf("a system prompt is for a chat, but the prompt template is %s", d.PromptTemplate))
		}
		d.SystemPrompt = o.System
	}
	if s.template, err = s.model.Template(d); err != nil {
		return fmt.Errorf("%w (--raw sends the prompt as it is)", err)
	}
	return nil
}
