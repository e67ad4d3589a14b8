package bpe

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// FileOfGGUF is the tokenizer.json of the tokenizer that [FromGGUF] makes of the same values. A
// begin token of 0 or more is put before a text.
func FileOfGGUF(pre string, tokens []string, types []int64, merges []string, begin int32) ([]byte, error) {
	t, err := FromGGUF(pre, tokens, types, merges)
	if err != nil {
		return nil, err
	}
	type object = map[string]any
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
	added := []any{}
	for id, content := range tokens {
		if (types[id] == ggufControl || types[id] == ggufUserDefined) && content != "" {
			added = append(added, object{"id": id, "content": content, "special": types[id] == ggufControl,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
		}
	}
	file := object{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer": pieces, "post_processor": nil, "decoder": level(true),
		"model": object{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false,
			"ignore_merges": t.merger.ignoreMerges, "vocab": t.ids, "merges": merges,
		},
	}
	if t.nfc {
		file["normalizer"] = object{"type": "NFC"}
	}
	if begin >= 0 {
		if int(begin) >= len(tokens) {
			return nil, fmt.Errorf("the begin token %d is not in the vocabulary of %d", begin, len(tokens))
		}
		name := tokens[begin]
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
