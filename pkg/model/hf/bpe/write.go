package bpe

import (
	"bytes"
	"encoding/json"
	"fmt"
)

type object = map[string]any

// FileOfGGUF is the tokenizer.json of the tokenizer that [FromGGUF] makes of the same values. A
// begin token of 0 or more is put before a text. In SentencePiece-style BPE, where two merges make
// the same token and overlap, the file takes the one with the longer first token, not the leftmost:
// the form has no equal ranks.
func FileOfGGUF(g GGUF, begin int32) ([]byte, error) {
	t, err := FromGGUF(g)
	if err != nil {
		return nil, err
	}
	added := []any{}
	for id, content := range g.Tokens {
		if isAdded, special := g.added(id); isAdded {
			added = append(added, object{"id": id, "content": content, "special": special,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
		}
	}
	file := object{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "post_processor": nil}
	if g.Model == "llama" {
		err = g.charactersFile(t, file)
	} else {
		g.byteLevelFile(t, file)
	}
	if err != nil {
		return nil, err
	}
	if begin >= 0 {
		if int(begin) >= len(g.Tokens) {
			return nil, fmt.Errorf("the begin token %d is not in the vocabulary of %d", begin, len(g.Tokens))
		}
		name := g.Tokens[begin]
		token := func(kind int) object { return object{"SpecialToken": object{"id": name, "type_id": kind}} }
		text := func(id string, kind int) object { return object{"Sequence": object{"id": id, "type_id": kind}} }
		file["post_processor"] = object{
			"type": "TemplateProcessing", "single": []any{token(0), text("A", 0)},
			"pair":           []any{token(0), text("A", 0), token(1), text("B", 1)},
			"special_tokens": object{name: object{"id": name, "ids": []int32{begin}, "tokens": []string{name}}},
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err = enc.Encode(file)
	return b.Bytes(), err
}

// modelFile is the part of the file that has the vocabulary and the merges.
func (t *Tokenizer) modelFile(merges []string) object {
	return object{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
		"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false,
		"ignore_merges": t.merger.ignoreMerges, "vocab": t.ids, "merges": merges}
}

// charactersFile sets the parts of SentencePiece-style BPE.
func (g *GGUF) charactersFile(t *Tokenizer, file object) error {
	pairs, err := g.pairs()
	if err != nil {
		return err
	}
	merges := make([]string, len(pairs))
	for i, p := range pairs {
		merges[i] = g.Tokens[p.a] + " " + g.Tokens[p.b]
	}
	model := t.modelFile(merges)
	model["byte_fallback"], model["fuse_unk"] = true, true
	if id := idOf(t.ids, unknownToken); id != noToken {
		model["unk_token"] = g.Tokens[id]
	}
	replace := func(old, new string) object {
		return object{"type": "Replace", "pattern": object{"String": old}, "content": new}
	}
	normalizers := []any{replace(" ", meta)}
	decoders := []any{replace(meta, " "), object{"type": "ByteFallback"}, object{"type": "Fuse"}}
	if g.SpacePrefix {
		normalizers = []any{object{"type": "Prepend", "prepend": meta}, normalizers[0]}
		decoders = append(decoders, object{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	file["normalizer"] = object{"type": "Sequence", "normalizers": normalizers}
	file["pre_tokenizer"] = nil
	file["decoder"] = object{"type": "Sequence", "decoders": decoders}
	file["model"] = model
	return nil
}

// byteLevelFile sets the parts of byte-level BPE.
func (g *GGUF) byteLevelFile(t *Tokenizer, file object) {
	level := func(regex bool) object {
		return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex}
	}
	before := func(first object, regex bool) object {
		return object{"type": "Sequence", "pretokenizers": []any{first, level(regex)}}
	}
	pattern := func(regex string) object {
		split := object{"type": "Split", "pattern": object{"Regex": regex}, "behavior": "Isolated", "invert": false}
		return before(split, false)
	}
	pieces := level(true)
	switch s := t.splitter; {
	case s.digits:
		pieces = before(object{"type": "Digits", "individual_digits": true}, true)
	case s.cl100k && s.maxDigits == 3:
		pieces = pattern(patternCl100k)
	case s.cl100k:
		pieces = pattern(patternQwen)
	}
	file["normalizer"] = nil
	if len(t.normalizer) > 0 {
		file["normalizer"] = object{"type": "NFC"}
	}
	file["pre_tokenizer"], file["decoder"], file["model"] = pieces, level(true), t.modelFile(g.Merges)
}
