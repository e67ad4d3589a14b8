package bpe

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// part is a normalizer or a decoder of tokenizer.json.
type part struct {
	Type        string  `json:"type"`
	Normalizers []part  `json:"normalizers"`
	Decoders    []part  `json:"decoders"`
	Prepend     string  `json:"prepend"`
	Pattern     pattern `json:"pattern"`
	Content     string  `json:"content"`
	Start       int     `json:"start"`
	Stop        int     `json:"stop"`
}

// pattern is what a part looks for.
type pattern struct{ String, Regex string }

// each is the parts of a sequence, or the part itself; none if it is nil.
func (p *part) each() []part {
	switch {
	case p == nil:
		return nil
	case p.Type == "Sequence":
		return slices.Concat(p.Normalizers, p.Decoders)
	}
	return []part{*p}
}

// describe is the part in short, for errors.
func (p *part) describe() string {
	if p == nil {
		return "none"
	}
	if p.Type != "Sequence" {
		return describe(p.Type, p.Pattern)
	}
	var parts []string
	for _, q := range p.each() {
		parts = append(parts, q.describe())
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func describe(kind string, p pattern) string {
	text := p.Regex + p.String
	if text == "" {
		return fmt.Sprintf("%.40s", kind)
	}
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "…"
	}
	return fmt.Sprintf("%.40s(%q)", kind, text)
}

// change is a step of a normalizer, for a text at a place.
type change func(text string, p place) string

// changes are the steps of a normalizer.
func (p *part) changes() (out []change, err error) {
	for _, q := range p.each() {
		switch {
		case q.Type == "NFC":
			out = append(out, func(s string, _ place) string { return norm.NFC.String(s) })
		case q.Type == "Prepend":
			out = append(out, func(s string, p place) string {
				if s == "" || p == afterText {
					return s
				}
				return q.Prepend + s
			})
		case q.Type == "Replace" && q.Pattern.String != "":
			out = append(out, func(s string, _ place) string {
				return strings.ReplaceAll(s, q.Pattern.String, q.Content)
			})
		default:
			return nil, fmt.Errorf("normalizer %s is not supported; supported are NFC, Prepend and Replace of a text",
				q.describe())
		}
	}
	return out, nil
}

// fallback is the decoder of SentencePiece-style BPE: Replace, ByteFallback, Fuse and Strip, of
// which the first and the last may be missing.
func (p *part) fallback() (*fallbackDecoder, error) {
	d, parts := &fallbackDecoder{replace: strings.NewReplacer()}, p.each()
	if len(parts) > 0 && parts[0].Type == "Replace" && parts[0].Pattern.String != "" {
		d.replace = strings.NewReplacer(parts[0].Pattern.String, parts[0].Content)
		parts = parts[1:]
	}
	if n := len(parts); n == 3 && parts[2].Type == "Strip" && parts[2].Stop == 0 && len([]rune(parts[2].Content)) == 1 {
		d.strip, d.times = parts[2].Content, parts[2].Start
		parts = parts[:2]
	}
	if len(parts) != 2 || parts[0].Type != "ByteFallback" || parts[1].Type != "Fuse" {
		return nil, fmt.Errorf("decoder %s is not supported with byte fallback; supported is "+
			"[Replace, ByteFallback, Fuse, Strip], of which the first and the last may be missing", p.describe())
	}
	return d, nil
}

// spaces is a pre-tokenizer of SentencePiece-style BPE.
type spaces struct {
	after  string // a piece ends after this; empty: nowhere
	before string // a piece begins before this; empty: nowhere

	// Metaspace: it replaces spaces, and puts itself before a text that does not begin with it
	// (always, first or never).
	meta, prefix string
}

// spacesOf recognises a pre-tokenizer.
func (p *preTokenizer) spacesOf() (*spaces, error) {
	switch {
	case p == nil:
		return &spaces{}, nil
	case p.Type == "Split" && p.Pattern.String != "" && p.Behavior == "MergedWithPrevious" && !p.Invert:
		return &spaces{after: p.Pattern.String}, nil
	case p.Type == "Metaspace" && p.Replacement != "":
		s := &spaces{meta: p.Replacement, prefix: p.PrependScheme}
		if p.Split == nil || *p.Split {
			s.before = p.Replacement
		}
		if s.prefix == "" && p.AddPrefixSpace {
			s.prefix = "always"
		}
		if slices.Contains([]string{"always", "first", "never"}, s.prefix) {
			return s, nil
		}
		return nil, fmt.Errorf("pre-tokenizer Metaspace with prepend_scheme %.40q is not supported", s.prefix)
	}
	return nil, fmt.Errorf("pre-tokenizer %s is not supported with byte fallback; supported are none, Split of a text "+
		"(MergedWithPrevious) and Metaspace", p.describe())
}

// split calls yield with the pieces of s.
func (p *spaces) split(s string, at place, yield func(piece string)) {
	if p.meta != "" {
		s = strings.ReplaceAll(s, " ", p.meta)
		prefix := p.prefix == "always" && at != afterText || p.prefix == "first" && at == atStart
		if prefix && !strings.HasPrefix(s, p.meta) {
			s = p.meta + s
		}
	}
	switch {
	case p.after != "":
		for piece := range strings.SplitAfterSeq(s, p.after) {
			yield(piece)
		}
	case p.before != "":
		for s != "" {
			end := strings.Index(s[1:], p.before) + 1
			if end == 0 {
				end = len(s)
			}
			yield(s[:end])
			s = s[end:]
		}
	default:
		yield(s)
	}
}
