package hf

import (
	"slices"

	"grpo/pkg/model"
)

// endNames are names of tokens that end a turn or a text. Where a vocabulary has them as added
// tokens they end a completion whatever the other files say, as in llama.cpp: converters and
// fine-tuning often leave only one of several in the configuration, or add them without "special".
var endNames = []string{
	"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
	"</s>", "<EOT>", "_<EOT>", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
	"<eos>", "[EOS]", "[EOT]", "<|return|>", "<|call|>",
}

// addEnd adds an end token, unless it is one already.
func (c *Config) addEnd(id int32, from string) {
	if !slices.Contains(c.End, id) {
		c.End, c.endFrom = append(c.End, id), append(c.endFrom, from)
	}
}

// special resolves the special tokens of an open checkpoint. eos is the end token of its tokenizer,
// named by eosFrom; negative if it names none: then the only one that the other files name follows
// answers. beginFrom names what puts the begin tokens before a text.
func (c *Checkpoint) special(eos int32, eosFrom, beginFrom string) error {
	if eos >= 0 {
		c.Config.addEnd(eos, eosFrom)
	}
	if eos < 0 && len(c.Config.End) == 1 {
		eos, eosFrom = c.Config.End[0], c.Config.endFrom[0]
	}
	for _, name := range endNames {
		id, ok := c.Tokenizer.ID(name)
		if name == "</s>" { // in Gemma's vocabulary it is a tag of HTML, and not special
			ok = ok && c.Tokenizer.Special(id)
		}
		if ok && c.Tokenizer.Added(id) {
			c.Config.addEnd(id, "its name")
		}
	}
	if err := c.Config.check(); err != nil {
		return err
	}
	// What users typed cannot end a turn, whatever a file says of the end tokens.
	if ends := slices.DeleteFunc(slices.Clone(c.Config.End), func(id int32) bool {
		return !c.Tokenizer.Added(id) || c.Tokenizer.Special(id)
	}); len(ends) > 0 {
		c.Tokenizer = c.Tokenizer.Reserving(ends)
	}
	token := func(id int32, from string) model.SpecialToken {
		return model.SpecialToken{ID: int(id), Text: c.Tokenizer.Decode([]int32{id}, false), From: from}
	}
	for _, id := range c.Tokenizer.Begin() {
		c.Special.Begin = append(c.Special.Begin, token(id, beginFrom))
	}
	for i, id := range c.Config.End {
		c.Special.End = append(c.Special.End, token(id, c.Config.endFrom[i]))
	}
	switch {
	case eos >= 0:
		answer := token(eos, eosFrom)
		c.Special.Answer = &answer
	case len(c.Config.End) == 1:
		c.Special.Answer = &c.Special.End[0]
	}
	return nil
}
