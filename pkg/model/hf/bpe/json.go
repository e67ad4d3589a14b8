package bpe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// file is tokenizer.json as far as BPE needs it.
type file struct {
	AddedTokens   []addedToken   `json:"added_tokens"`
	Normalizer    *part          `json:"normalizer"`
	PreTokenizer  *preTokenizer  `json:"pre_tokenizer"`
	PostProcessor *postProcessor `json:"post_processor"`
	Decoder       *part          `json:"decoder"`
	Model         struct {
		Type         string     `json:"type"`
		Vocab        vocabulary `json:"vocab"`
		Merges       mergeList  `json:"merges"`
		IgnoreMerges bool       `json:"ignore_merges"`
		Dropout      *float64   `json:"dropout"`
		Prefix       string     `json:"continuing_subword_prefix"`
		Suffix       string     `json:"end_of_word_suffix"`
		ByteFallback bool       `json:"byte_fallback"`
		Unknown      *string    `json:"unk_token"`
		FuseUnknown  bool       `json:"fuse_unk"`
	} `json:"model"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type preTokenizer struct {
	Type             string         `json:"type"`
	PreTokenizers    []preTokenizer `json:"pretokenizers"`
	IndividualDigits bool           `json:"individual_digits"`
	AddPrefixSpace   bool           `json:"add_prefix_space"`
	UseRegex         *bool          `json:"use_regex"` // absent means true
	Behavior         string         `json:"behavior"`
	Invert           bool           `json:"invert"`
	Pattern          pattern        `json:"pattern"`
	Replacement      string         `json:"replacement"`
	PrependScheme    string         `json:"prepend_scheme"`
	Split            *bool          `json:"split"` // absent means true
}

type postProcessor struct {
	Type       string          `json:"type"`
	Processors []postProcessor `json:"processors"`
	Single     []templatePiece `json:"single"`
	Special    map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
}

// templatePiece is a special token or the text (sequence A).
type templatePiece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct{} `json:"Sequence"`
}

// vocabulary and mergeList have most of the values of a file. They are read token by token, which takes half the time
// that reflection takes.
type vocabulary map[string]int32

func (v *vocabulary) UnmarshalJSON(data []byte) error {
	d := decoderOf(data)
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return cmp.Or(err, errors.New("the vocabulary is not an object"))
	}
	*v = make(vocabulary, len(data)/16)
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		token := name.String()
		number, err := d.ReadToken()
		if err != nil {
			return err
		}
		id, err := strconv.ParseInt(number.String(), 10, 32)
		if err != nil || number.Kind() != '0' {
			return fmt.Errorf("the token %.40q has no integer of 32 bits", token)
		}
		(*v)[token] = int32(id)
	}
	return nil
}

// merge is a pair of tokens, written as "a b" or as ["a", "b"].
type merge [2]string

type mergeList []merge

func (l *mergeList) UnmarshalJSON(data []byte) error {
	d := decoderOf(data)
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '[' {
		return cmp.Or(err, errors.New("merges are not a list"))
	}
	*l = make(mergeList, 0, len(data)/16)
	for d.PeekKind() != ']' {
		var m merge
		if err := m.read(d); err != nil {
			return err
		}
		*l = append(*l, m)
	}
	return nil
}

func (m *merge) read(d *jsontext.Decoder) error {
	t, err := d.ReadToken()
	switch {
	case err != nil:
		return err
	case t.Kind() == '"':
		var ok bool
		s := t.String()
		if m[0], m[1], ok = strings.Cut(s, " "); !ok {
			return fmt.Errorf("merge %.40q is not two tokens", s)
		}
		return nil
	case t.Kind() != '[':
		return fmt.Errorf("merge %.40s is not two tokens", t)
	}
	n := 0
	for ; d.PeekKind() != ']'; n++ {
		if t, err = d.ReadToken(); err != nil {
			return err
		}
		if t.Kind() != '"' || n == len(m) {
			return errors.New("a merge is not two tokens")
		}
		m[n] = t.String()
	}
	if n != len(m) {
		return errors.New("a merge is not two tokens")
	}
	_, err = d.ReadToken()
	return err
}

// decoderOf reads data whose syntax has been checked; [jsonkeys.Decode] checks the characters.
func decoderOf(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// splitterOf recognises a pre-tokenizer; the error names those that are supported.
func (p *preTokenizer) splitterOf() (s *splitter, prefixSpace bool, err error) {
	if p == nil {
		return nil, false, fmt.Errorf("it has no pre-tokenizer; %s", supported)
	}
	parts := []preTokenizer{*p}
	if p.Type == "Sequence" {
		parts = p.PreTokenizers
	}
	last := len(parts) - 1
	if last < 0 || last > 1 || parts[last].Type != "ByteLevel" {
		return nil, false, fmt.Errorf("pre-tokenizer %s is not supported; %s", p.describe(), supported)
	}
	regex := parts[last].UseRegex == nil || *parts[last].UseRegex
	prefixSpace = parts[last].AddPrefixSpace
	if last == 0 && regex {
		return newSplitter(false, false, 0), prefixSpace, nil
	}
	if last == 1 {
		first := parts[0]
		whole := first.Behavior == "Isolated" && !first.Invert || first.Behavior == "Removed" && first.Invert
		switch {
		case first.Type == "Digits" && first.IndividualDigits && regex:
			return newSplitter(true, false, 0), prefixSpace, nil
		case first.Type != "Split" || regex || !whole:
		case first.Pattern.Regex == patternCl100k:
			return newSplitter(false, true, 3), prefixSpace, nil
		case first.Pattern.Regex == patternQwen:
			return newSplitter(false, true, 1), prefixSpace, nil
		case first.Pattern.Regex == patternGPT2:
			return newSplitter(false, false, 0), prefixSpace, nil
		}
	}
	return nil, false, fmt.Errorf("pre-tokenizer %s is not supported; %s", p.describe(), supported)
}

const supported = "supported are those of GPT-2, Llama 3 (cl100k), Qwen2, Qwen3 and SmolLM2"

// describe is the pre-tokenizer in short, for errors.
func (p *preTokenizer) describe() string {
	if p.Type == "Sequence" {
		var parts []string
		for i := range p.PreTokenizers {
			parts = append(parts, p.PreTokenizers[i].describe())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return describe(p.Type, p.Pattern)
}

// begin is the tokens that a post-processor puts before the text. Those that it puts after it are
// left out.
func (p *postProcessor) begin() (ids []int32, err error) {
	if p == nil {
		return nil, nil
	}
	switch p.Type {
	case "ByteLevel": // changes offsets only
		return nil, nil
	case "Sequence":
		for i := range p.Processors {
			first, err := p.Processors[i].begin()
			if err != nil {
				return nil, err
			}
			ids = append(first, ids...)
		}
		return ids, nil
	case "TemplateProcessing":
		for _, piece := range p.Single {
			if piece.Sequence != nil {
				return ids, nil
			}
			if piece.SpecialToken == nil {
				return nil, fmt.Errorf("a template with a piece that is neither a token nor the text")
			}
			token := p.Special[piece.SpecialToken.ID].IDs
			if len(token) == 0 {
				return nil, fmt.Errorf("the template's token %q has no id", piece.SpecialToken.ID)
			}
			ids = append(ids, token...)
		}
		return nil, fmt.Errorf("the template lacks the text")
	}
	return nil, fmt.Errorf("post-processor %s is not supported; supported are ByteLevel and TemplateProcessing", p.Type)
}
