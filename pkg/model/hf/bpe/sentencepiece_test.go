package bpe

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"grpo/internal/expect"
)

// slow is SentencePiece-style BPE as its description says it: no cache, no cuts, no tables.
type slow struct {
	vocab   map[string]int32
	added   []addedToken
	prefix  bool
	fuse    bool
	whole   bool // ignore_merges
	unknown string
	better  func(a, b, c, d string) bool // whether a and b are merged before c and d, which come first
	merges  func(a, b string) bool
}

func (s *slow) encode(text string) (ids []int32) {
	for text != "" {
		end, token := len(text), addedToken{}
		for i := range text {
			if token = find(s.added, text[i:]); token.Content != "" {
				end = i
				break
			}
		}
		if part := text[:end]; part != "" {
			if s.prefix {
				part = meta + part
			}
			ids = append(ids, s.piece(strings.ReplaceAll(part, " ", meta))...)
		}
		if token.Content != "" {
			ids = append(ids, token.ID)
		}
		text = text[end+len(token.Content):]
	}
	return ids
}

func (s *slow) piece(text string) (ids []int32) {
	if id, ok := s.vocab[text]; ok && s.whole {
		return []int32{id}
	}
	var symbols []string
	waits := false // an unknown token, for the next known character, as in the library
	flush := func() {
		if waits {
			symbols, waits = append(symbols, s.unknown), false
		}
	}
	for text != "" {
		_, n := utf8.DecodeRuneInString(text)
		char := text[:n]
		text = text[n:]
		if _, ok := s.vocab[char]; ok {
			flush()
			symbols = append(symbols, char)
			continue
		}
		var bytes []string
		for _, b := range []byte(char) {
			if name := fmt.Sprintf("<0x%02X>", b); hasKey(s.vocab, name) {
				bytes = append(bytes, name)
			}
		}
		if len(bytes) == n {
			symbols = append(symbols, bytes...)
		} else if s.unknown != "" {
			if !s.fuse {
				flush()
			}
			waits = true
		}
	}
	flush()
	for {
		at := -1
		for i := 0; i+1 < len(symbols); i++ {
			a, b := symbols[i], symbols[i+1]
			if s.merges(a, b) && (at < 0 || s.better(a, b, symbols[at], symbols[at+1])) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		symbols = slices.Replace(symbols, at, at+2, symbols[at]+symbols[at+1])
	}
	for _, x := range symbols {
		ids = append(ids, s.vocab[x])
	}
	return ids
}

// lossless reports whether every byte has a token.
func (s *slow) lossless() bool {
	n := 0
	for content := range s.vocab {
		if _, ok := byteOfToken(content); ok {
			n++
		}
	}
	return n == 256
}

func hasKey(m map[string]int32, key string) bool {
	_, ok := m[key]
	return ok
}

// decode joins tokens and runs of bytes.
func (s *slow) decode(ids []int32) string {
	byID := map[int32]string{}
	for content, id := range s.vocab {
		byID[id] = content
	}
	var text, run string
	for _, id := range append(ids, -1) {
		var b byte
		if n, _ := fmt.Sscanf(byID[id], "<0x%02X>", &b); n == 1 && len(byID[id]) == 6 {
			run += string([]byte{b})
			continue
		}
		if !utf8.ValidString(run) {
			run = strings.Repeat("\ufffd", len(run))
		}
		text += run + strings.ReplaceAll(byID[id], meta, " ")
		run = ""
	}
	if s.prefix {
		text = strings.TrimPrefix(text, " ")
	}
	return text
}

// randomVocabulary is a small vocabulary with merges of what it has: of characters, seldom of bytes,
// within words and across spaces.
func randomVocabulary(draw *rand.Rand) (contents []string, merges [][2]string) {
	contents = []string{"<unk>", "<end>"}
	for b := range 256 {
		if b%64 != 7 || draw.IntN(2) == 0 {
			contents = append(contents, fmt.Sprintf("<0x%02X>", b))
		}
	}
	parts := []string{"a", "b", "é", "▁", "\n", "日", "<", "e"}
	if draw.IntN(8) == 0 {
		parts = append(parts, "<0xC3>", "<0xBC>", "<unk>")
		contents = slices.Concat(contents, parts[:len(parts)-3])
	} else {
		contents = append(contents, parts...)
	}
	across := draw.IntN(3) > 0
	for len(merges) < 12+draw.IntN(30) {
		a, b := parts[draw.IntN(len(parts))], parts[draw.IntN(len(parts))]
		if !across && strings.HasPrefix(b, meta) && !strings.HasSuffix(a, meta) || slices.Contains(merges, [2]string{a, b}) {
			if draw.IntN(20) == 0 {
				break
			}
			continue
		}
		merges = append(merges, [2]string{a, b})
		if !slices.Contains(contents, a+b) {
			contents, parts = append(contents, a+b), append(parts, a+b)
		}
	}
	return contents, merges
}

func seedSentencePiece(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, "ab ba  <end> aé日 日\n\nüüab ü a<end<\x07 \x07b")
		f.Add(seed, strings.Repeat("ab éa日b\nba", 9)+strings.Repeat("abba日aéb", 16)+" \xc3x\xff ☃")
	}
	f.Add(uint64(1), "")
	f.Add(uint64(2), "<unk><0xC3><0x41>\x00 "+meta+meta+" a")
}

// A tokenizer.json gives the ids and texts of the slow reference.
func FuzzSentencePiece(f *testing.F) {
	seedSentencePiece(f)
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		text = text[:min(len(text), 2000)]
		draw := rand.New(rand.NewPCG(seed, 1))
		contents, merges := randomVocabulary(draw)
		s := &slow{vocab: map[string]int32{}, prefix: draw.IntN(2) == 0, fuse: draw.IntN(2) == 0, whole: draw.IntN(4) == 0,
			added: []addedToken{{ID: 1, Content: "<end>", Special: true}}}
		for id, content := range contents {
			s.vocab[content] = int32(id)
		}
		rank := map[[2]string]int{}
		for i, m := range merges {
			rank[m] = i
		}
		s.merges = func(a, b string) bool { _, ok := rank[[2]string{a, b}]; return ok }
		s.better = func(a, b, c, d string) bool { return rank[[2]string{a, b}] < rank[[2]string{c, d}] }
		replace := func(old, new string) object {
			return object{"type": "Replace", "pattern": object{"String": old}, "content": new}
		}
		normalizer := replace(" ", meta)
		decoders := []any{replace(meta, " "), object{"type": "ByteFallback"}, object{"type": "Fuse"}}
		if s.prefix {
			normalizer = object{"type": "Sequence", "normalizers": []any{object{"type": "Prepend", "prepend": meta}, normalizer}}
			decoders = append(decoders, object{"type": "Strip", "content": " ", "start": 1, "stop": 0})
		}
		model := object{"type": "BPE", "vocab": s.vocab, "merges": merges, "byte_fallback": true, "fuse_unk": s.fuse,
			"ignore_merges": s.whole}
		if draw.IntN(2) == 0 {
			s.unknown, model["unk_token"] = "<unk>", "<unk>"
		}
		data, err := json.Marshal(object{"model": model, "normalizer": normalizer, "added_tokens": s.added,
			"decoder": object{"type": "Sequence", "decoders": decoders}})
		expect.OK(t, err)
		tok, err := Parse(data)
		expect.OK(t, err)
		s.compare(t, tok, text)
	})
}

func (s *slow) compare(t *testing.T, tok *Tokenizer, text string) {
	t.Helper()
	ids := s.encode(text)
	if got := tok.Encode(text); !slices.Equal(got, ids) {
		t.Fatalf("%q\n got %v\nwant %v", text, got, ids)
	}
	if got, want := tok.Decode(ids, false), s.decode(ids); got != want {
		t.Fatalf("%v: %q, want %q", ids, got, want)
	}
	if !slices.ContainsFunc(s.added, func(a addedToken) bool { return strings.Contains(text, a.Content) }) {
		whole := *s
		whole.prefix = false
		if got := tok.EncodeAfter([]int32{tok.ids["a"]}, "", text); !slices.Equal(got, whole.encode(text)) {
			t.Fatalf("%q after another text\n got %v\nwant %v", text, got, whole.encode(text))
		}
		if utf8.ValidString(text) && !strings.Contains(text, meta) && s.lossless() {
			if got := tok.DecodeAfter(whole.encode(text), false); got != text {
				t.Fatalf("%q after another text became %q", text, got)
			}
		}
	}
}

// Scores of a GGUF file merge the pair with the highest one, the leftmost of equals, and a
// tokenizer.json made of them that has no equal ones does the same.
func FuzzScores(f *testing.F) {
	seedSentencePiece(f)
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		text = text[:min(len(text), 2000)]
		draw := rand.New(rand.NewPCG(seed, 2))
		contents, _ := randomVocabulary(draw)
		g := GGUF{Model: "llama", SpacePrefix: draw.IntN(2) == 0, Tokens: contents}
		s := &slow{vocab: map[string]int32{}, prefix: g.SpacePrefix, fuse: true, unknown: "<unk>",
			added: []addedToken{{ID: 0, Content: "<unk>", Special: true}, {ID: 1, Content: "<end>", Special: true}}}
		for id, content := range contents {
			kind := int64(1)
			switch _, isByte := byteOfToken(content); {
			case isByte:
				kind = ggufByte
			case content == "<unk>":
				kind = ggufUnknown
			case content == "<end>":
				kind = ggufControl
			}
			g.Types, g.Scores = append(g.Types, kind), append(g.Scores, float64(draw.IntN(8)))
			s.vocab[content] = int32(id)
		}
		normal := func(x string) bool { return hasKey(s.vocab, x) && g.Types[s.vocab[x]] == 1 }
		s.merges = func(a, b string) bool { return normal(a) && normal(b) && normal(a+b) }
		s.better = func(a, b, c, d string) bool { return g.Scores[s.vocab[a+b]] > g.Scores[s.vocab[c+d]] }
		tok, err := FromGGUF(g)
		expect.OK(t, err)
		s.compare(t, tok, text)

		for i := range g.Scores {
			g.Scores[i] = -float64(i)
		}
		s.better = func(a, b, c, d string) bool { // of one token that two merges make, the longer first part
			return s.vocab[a+b] < s.vocab[c+d] || a+b == c+d && utf8.RuneCountInString(a) > utf8.RuneCountInString(c)
		}
		data, err := FileOfGGUF(g, -1)
		expect.OK(t, err)
		tok, err = Parse(data)
		expect.OK(t, err)
		s.compare(t, tok, text)
	})
}

// What is put before a text and where it is split, as tokenizers 0.23.3 does.
func TestSpaces(t *testing.T) {
	const replace = `{"type":"Replace","pattern":{"String":" "},"content":"▁"}`
	const model = `"added_tokens":[{"id":1,"content":"<end>","special":true}],"decoder":{"type":"Sequence","decoders":` +
		`[{"type":"ByteFallback"},{"type":"Fuse"}]},"model":{"type":"BPE","byte_fallback":true,"fuse_unk":true,` +
		`"unk_token":"<unk>","vocab":{"<unk>":0,"<end>":1,"▁":2,"a":3,"b":4,"▁a":5,"ab":6,"a▁":7,"▁▁":8},` +
		`"merges":[["a","▁"],["▁","▁"],["▁","a"],["a","b"]]}`
	metaspace := func(rest string) string {
		return `"pre_tokenizer":{"type":"Metaspace","replacement":"▁",` + rest + `},`
	}
	for _, tt := range []struct{ parts, two, one, more string }{
		{``, "ab|<unk>|a|<unk>|b|<end>|b|<unk>|a", "<unk>|a", "ab ab"},
		{`"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},` + replace + `]},`,
			"▁a|b|▁▁|a▁|b|<end>|▁|b|▁a", "▁▁|a", "ab ▁a|b"},
		{`"normalizer":` + replace + `,"pre_tokenizer":{"type":"Split","pattern":{"String":"▁"},"behavior":"MergedWithPrevious"},`,
			"ab|▁|▁|a▁|b|<end>|b|▁|a", "▁|a", "ab ab"},
		{metaspace(`"prepend_scheme":"always","split":false`), "▁a|b|▁▁|a▁|b|<end>|▁|b|▁a", "▁a", "ab ▁a|b"},
		{metaspace(`"prepend_scheme":"first","split":false`), "▁a|b|▁▁|a▁|b|<end>|b|▁a", "▁a", "ab ab"},
		{metaspace(`"prepend_scheme":"never","split":false`), "ab|▁▁|a▁|b|<end>|b|▁a", "▁a", "ab ab"},
		{metaspace(`"prepend_scheme":"always"`), "▁a|b|▁|▁a|▁|b|<end>|▁|b|▁a", "▁a", "ab ▁a|b"},
		{metaspace(`"add_prefix_space":true`), "▁a|b|▁|▁a|▁|b|<end>|▁|b|▁a", "▁a", "ab ▁a|b"},
	} {
		tok, err := Parse([]byte("{" + tt.parts + model + "}"))
		expect.OK(t, err)
		join := func(ids []int32) string {
			var out []string
			for _, id := range ids {
				out = append(out, tok.tokens[id])
			}
			return strings.Join(out, "|")
		}
		for text, want := range map[string]string{"ab  a b<end>b a": tt.two, " a": tt.one} {
			if got := join(tok.Encode(text)); got != want {
				t.Errorf("%s%q: %s, want %s", tt.parts, text, got, want)
			}
		}
		after := join(tok.EncodeAfter([]int32{3}, "", "ab")) + " " + join(tok.EncodeAfter([]int32{3, 1}, "", "ab"))
		if after != tt.more {
			t.Errorf("%safter a text and after a token: %s, want %s", tt.parts, after, tt.more)
		}
	}
}
