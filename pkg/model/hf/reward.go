package hf

import (
	"maps"
	"slices"
)

// ScoreWeight is the tensor of a reward model that maps the last state to the reward, without a bias.
const ScoreWeight = "score.weight"

// classifier ends the names of architectures for sequence classification.
const classifier = "ForSequenceClassification"

// labels is the number of labels of a classifier; transformers' default is 2.
func (f *configFile) labels() int {
	if len(f.Labels) > 0 {
		return len(f.Labels)
	}
	return valueOr(f.NumLabels, 2)
}

// Reward returns the files of a reward model with the network and tokenizer of f: transformers loads
// the folder as a network for sequence classification with one label.
//
// Transformers takes the reward at the last token that is not padding. So the padding token must not
// be an end token, with which completions end: where it is, or there is none, another special token
// becomes the padding token.
func (f Folder) Reward(c *Checkpoint) (Folder, error) {
	out := maps.Clone(f)
	pad, text := c.padding()
	err := out.edit(configName, func(m map[string]any) {
		m["architectures"] = []string{c.Config.class(m, classifier)}
		m["id2label"], m["label2id"] = map[string]string{"0": "LABEL_0"}, map[string]int{"LABEL_0": 0}
		delete(m, "num_labels")
		if pad >= 0 {
			m["pad_token_id"] = pad
		}
	})
	if err == nil && text != "" {
		err = out.edit(tokenizerConfigName, func(m map[string]any) { m["pad_token"] = text })
	}
	return out, err
}

// padding is the padding token of a reward model and, if it is not the checkpoint's, its text; -1 if
// the checkpoint has no special token for it.
func (c *Checkpoint) padding() (id int32, text string) {
	if c.Config.Pad >= 0 && !slices.Contains(c.Config.End, c.Config.Pad) {
		return c.Config.Pad, ""
	}
	for id := range int32(c.Tokenizer.Size()) {
		if c.Tokenizer.Special(id) && !slices.Contains(c.Config.End, id) {
			return id, c.Tokenizer.Decode([]int32{id}, false)
		}
	}
	return -1, ""
}
