// Package bpe encodes and decodes text with the BPE tokenizers of Hugging Face's tokenizer.json
// and of GGUF files. Byte-level BPE: added tokens, NFC, the pre-tokenizers of GPT-2, Llama 3
// (cl100k), Qwen and SmolLM2, merges, and the tokens that a template adds. SentencePiece-style
// BPE, as of Llama 2, Mistral and Gemma: characters instead of bytes, with byte fallback.
// The ids equal those of the tokenizers library. A file with any other part is an
// error, never a guess.
package bpe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"grpo/internal/jsonkeys"
)

// Tokenizer encodes and decodes text. It is safe for concurrent use.
type Tokenizer struct {
	splitter    *splitter
	spaces      *spaces          // of SentencePiece-style BPE, instead of splitter; else nil
	decoder     *fallbackDecoder // with spaces
	merger      *merger
	normalizer  []change
	prefixSpace bool
	raw         matcher  // added tokens that are found in the text as it is
	normalized  matcher  // those that are found after the normalizer
	tokens      []string // the bytes of each id; of an added token its content
	special     map[int32]bool
	ids         map[string]int32 // by content, of added tokens and of the vocabulary
	begin       []int32          // see Begin
	model       int              // one more than the largest id that is not only added
}

// maxID bounds the ids of a tokenizer; the largest public vocabularies have 262,144.
const maxID = 1 << 21

// Parse reads a tokenizer.json. The error names the part that is not supported or
// contradicts another.
func Parse(data []byte) (*Tokenizer, error) {
	var f file
	if err := jsonkeys.Decode(data, &f); err != nil {
		return nil, fmt.Errorf("read tokenizer: %w", err)
	}
	t, err := f.tokenizer()
	if err != nil {
		return nil, fmt.Errorf("read tokenizer: %w", err)
	}
	return t, nil
}

func (f *file) tokenizer() (*Tokenizer, error) {
	m := &f.Model
	switch {
	case m.Type != "BPE":
		return nil, fmt.Errorf("model %.40q is not supported; supported are byte-level and SentencePiece-style BPE",
			m.Type)
	case m.Dropout != nil && *m.Dropout != 0, m.Prefix != "", m.Suffix != "":
		return nil, fmt.Errorf("BPE with dropout, a word prefix or suffix is not supported")
	case len(m.Vocab) == 0:
		return nil, fmt.Errorf("model.vocab is empty")
	}
	t := &Tokenizer{special: map[int32]bool{}, ids: m.Vocab}
	var err error
	if t.normalizer, err = f.Normalizer.changes(); err != nil {
		return nil, err
	}
	if t.begin, err = f.PostProcessor.begin(); err != nil {
		return nil, err
	}
	if m.ByteFallback {
		err = f.characters(t)
	} else {
		err = f.byteLevel(t)
	}
	if err != nil {
		return nil, err
	}
	for content, id := range m.Vocab {
		if err := t.setToken(id, content, t.textOf(content)); err != nil {
			return nil, err
		}
	}
	t.model = len(t.tokens)
	var raw, normalized []addedToken
	for _, a := range f.AddedTokens {
		if a.Content == "" {
			continue
		}
		text := a.Content
		if t.decoder != nil {
			text = t.textOf(text)
		}
		if err := t.setToken(a.ID, a.Content, text); err != nil {
			return nil, err
		}
		t.ids[a.Content] = a.ID
		t.special[a.ID] = a.Special
		if a.Normalized {
			a.Content = t.normalize(a.Content, false)
			if t.decoder != nil { // the library decodes what it looks for
				t.tokens[a.ID] = t.textOf(a.Content)
			}
			normalized = append(normalized, a)
		} else {
			raw = append(raw, a)
		}
	}
	t.raw, t.normalized = newMatcher(raw), newMatcher(normalized)
	for _, id := range t.begin {
		if id < 0 || int(id) >= len(t.tokens) {
			return nil, fmt.Errorf("the template's token %d is not in the vocabulary", id)
		}
	}
	return t, nil
}

// byteLevel sets the parts of byte-level BPE.
func (f *file) byteLevel(t *Tokenizer) (err error) {
	if f.Decoder == nil || f.Decoder.Type != "ByteLevel" {
		return fmt.Errorf("decoder %s is not supported without byte fallback; supported is ByteLevel",
			f.Decoder.describe())
	}
	if t.splitter, t.prefixSpace, err = f.PreTokenizer.splitterOf(); err != nil {
		return err
	}
	t.merger, err = newMerger(f.Model.Vocab, f.Model.Merges, f.Model.IgnoreMerges)
	return err
}

// characters sets the parts of SentencePiece-style BPE.
func (f *file) characters(t *Tokenizer) (err error) {
	if t.decoder, err = f.Decoder.fallback(); err != nil {
		return err
	}
	if t.spaces, err = f.PreTokenizer.spacesOf(); err != nil {
		return err
	}
	m, unknown := &f.Model, int32(noToken)
	if name := m.Unknown; name != nil {
		id, ok := m.Vocab[*name]
		if !ok {
			return fmt.Errorf("model.unk_token is %.40q, which is not in the vocabulary", *name)
		}
		unknown = id
	}
	chars := newCharacters(m.Vocab, unknown, m.FuseUnknown)
	if m.IgnoreMerges {
		chars.whole = maps.Clone(m.Vocab)
	}
	t.merger, err = newCharacterMerger(m.Vocab, chars, m.Merges)
	return err
}

// textOf is the text of a token of the vocabulary.
func (t *Tokenizer) textOf(content string) string {
	if t.decoder != nil {
		return t.decoder.replace.Replace(content)
	}
	return bytesOf(content)
}

func (t *Tokenizer) setToken(id int32, content, text string) error {
	if id < 0 || id >= maxID {
		return fmt.Errorf("token %q has id %d, outside 0 to %d", content, id, maxID-1)
	}
	if int(id) >= len(t.tokens) {
		t.tokens = append(t.tokens, make([]string, int(id)+1-len(t.tokens))...)
	}
	if old := t.tokens[id]; old != "" && old != text && old != t.textOf(text) {
		return fmt.Errorf("tokens %q and %q have the same id %d", old, content, id)
	}
	t.tokens[id] = text
	return nil
}

// newMerger checks that each merge makes a token.
func newMerger(vocab map[string]int32, merges []merge, ignoreMerges bool) (*merger, error) {
	m := &merger{vocab: make(map[string]int32, len(vocab)), ignoreMerges: ignoreMerges, cache: map[string][]int32{}}
	for content, id := range vocab {
		m.vocab[bytesOf(content)] = id
	}
	for b := range 256 {
		id, ok := m.vocab[string([]byte{byte(b)})]
		if !ok {
			id = noToken
		}
		m.bytes[b] = id
	}
	return m, m.add(vocab, merges)
}

// add adds merges, of which the first has the lowest rank.
func (m *merger) add(vocab map[string]int32, merges []merge) error {
	m.merges = make(map[uint64]merged, len(merges))
	for rank, pair := range merges {
		a, okA := vocab[pair[0]]
		b, okB := vocab[pair[1]]
		product := pair[0] + pair[1]
		id, ok := vocab[product]
		if !okA || !okB || !ok {
			return fmt.Errorf("merge %d, %q and %q: the two or their concatenation are not in the vocabulary", rank,
				pair[0], pair[1])
		}
		if _, ok := m.merges[pairOf(a, b)]; !ok {
			m.merges[pairOf(a, b)] = merged{int32(rank), id}
		}
		if m.chars != nil {
			m.chars.merging(a, b, product)
		}
	}
	return nil
}

// Encode returns the ids of text. Added tokens in it, such as <|im_end|>, become their
// own ids. The template's tokens are not added; see [Tokenizer.Begin].
func (t *Tokenizer) Encode(text string) []int32 { return t.encode(text, 0, 0, false) }

// EncodeMore returns the ids of plain text that continues another text, such as a completion:
// special tokens in it are text, and no tokenizer puts a space before it.
func (t *Tokenizer) EncodeMore(text string) []int32 { return t.encode(text, 0, len(text), true) }

// EncodeAround returns the ids of before + text + after. Special tokens are found in
// before and after; in text they are plain text: what users typed cannot end a turn.
// Everything else is split and merged across the boundaries, so that without special
// tokens in text the ids are those of [Tokenizer.Encode].
func (t *Tokenizer) EncodeAround(before, text, after string) []int32 {
	return t.encode(before+text+after, len(before), len(before)+len(text), false)
}

func (t *Tokenizer) normalize(text string, continues bool) string {
	for _, f := range t.normalizer {
		text = f(text, continues)
	}
	return text
}

// encode encodes text; its bytes from lo to hi are plain. See [Tokenizer.EncodeMore] about continues.
func (t *Tokenizer) encode(text string, lo, hi int, continues bool) []int32 {
	var out []int32
	token := func(id int32) { out = append(out, id) }
	t.raw.each(text, lo, hi, token, func(from, to int) {
		first := from == 0
		part, lo, hi := t.normalize(text[from:to], continues && first), max(lo, from)-from, min(hi, to)-from
		if lo >= hi {
			lo, hi = 0, 0
		} else if len(t.normalizer) > 0 { // it moves bytes: all of the part counts as plain
			lo, hi = 0, len(part)
		}
		piece := func(piece string) {
			if piece != "" {
				out = t.merger.encode(out, piece)
			}
		}
		t.normalized.each(part, lo, hi, token, func(from, to int) {
			part, first := part[from:to], first && from == 0
			if t.spaces != nil {
				t.spaces.split(part, first, continues && first, piece)
				return
			}
			if t.prefixSpace && !(continues && first) && !strings.HasPrefix(part, " ") {
				part = " " + part
			}
			t.splitter.split(part, piece)
		})
	})
	return out
}

// Begin returns the tokens that the tokenizer's template puts before a text, such as a begin
// token. Those that it puts after one would end a prompt before its completion.
func (t *Tokenizer) Begin() []int32 { return t.begin }

// Decode returns the text of ids. With skipSpecial, special tokens are left out. Bytes
// that are not UTF-8, as at the end of a cut completion, become U+FFFD; ids outside
// the vocabulary are left out.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	text := t.DecodeMore(ids, skipSpecial)
	if d := t.decoder; d != nil && d.strip != "" {
		for n := 0; n < d.times && strings.HasPrefix(text, d.strip); n++ {
			text = text[len(d.strip):]
		}
	}
	return text
}

// DecodeMore is Decode of ids that continue others: it keeps the space at the beginning that
// Decode leaves out if the tokenizer puts one before every text.
func (t *Tokenizer) DecodeMore(ids []int32, skipSpecial bool) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		if id >= 0 && int(id) < len(t.tokens) && !(skipSpecial && t.special[id]) {
			tokens = append(tokens, t.tokens[id])
		}
	}
	if t.decoder != nil {
		return t.decoder.decode(tokens)
	}
	return validUTF8(strings.Join(tokens, ""))
}

// SameTokens reports whether both tokenizers have the same tokens under the same ids.
func (t *Tokenizer) SameTokens(o *Tokenizer) bool { return slices.Equal(t.tokens, o.tokens) }

// Size is one more than the largest id.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// ID returns the id of a token by its content, as in tokenizer.json.
func (t *Tokenizer) ID(content string) (id int32, ok bool) {
	id, ok = t.ids[content]
	return id, ok && int(id) < len(t.tokens)
}

// Below returns the tokenizer without the ids from n on. They must be added tokens beyond the
// vocabulary, such as the one for images that Gemma 3's tokenizer has and its text models lack.
func (t *Tokenizer) Below(n int) (*Tokenizer, error) {
	if len(t.tokens) <= n {
		return t, nil
	}
	if n < t.model || slices.ContainsFunc(t.begin, func(id int32) bool { return int(id) >= n }) {
		return nil, fmt.Errorf("the tokenizer has %d tokens", len(t.tokens))
	}
	out := *t
	out.tokens = t.tokens[:n]
	out.raw, out.normalized = t.raw.below(n), t.normalized.below(n)
	return &out, nil
}

// Special reports whether id is a special token.
func (t *Tokenizer) Special(id int32) bool { return t.special[id] }

// Added reports whether id is a token that is found in a text as a whole, special or not.
func (t *Tokenizer) Added(id int32) bool {
	_, added := t.special[id]
	return added
}

// validUTF8 replaces what is not UTF-8 as Rust's from_utf8_lossy does: one U+FFFD for
// each longest prefix of a character that is cut short, one for any other byte.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteRune(utf8.RuneError)
			i += brokenPrefix(s[i:])
			continue
		}
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String()
}

// brokenPrefix is the length of the longest prefix of s that could begin a character
// (table 3-7 of the Unicode standard), at least 1.
func brokenPrefix(s string) int {
	need, lo, hi := 0, byte(0x80), byte(0xbf)
	switch b := s[0]; {
	case 0xc2 <= b && b <= 0xdf:
		need = 1
	case 0xe0 <= b && b <= 0xef:
		need = 2
		if b == 0xe0 {
			lo = 0xa0
		} else if b == 0xed {
			hi = 0x9f
		}
	case 0xf0 <= b && b <= 0xf4:
		need = 3
		if b == 0xf0 {
			lo = 0x90
		} else if b == 0xf4 {
			hi = 0x8f
		}
	}
	n := 1
	for ; n <= need && n < len(s) && lo <= s[n] && s[n] <= hi; n++ {
		lo, hi = 0x80, 0xbf
	}
	return n
}

// byteOf maps the characters by which byte-level BPE writes bytes to those bytes:
// printable Latin-1 characters are themselves, the others follow from U+0100.
var byteOf = func() map[rune]byte {
	out := map[rune]byte{}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !('!' <= r && r <= '~' || 0xa1 <= r && r <= 0xac || 0xae <= r) {
			r, next = next, next+1
		}
		out[r] = byte(b)
	}
	return out
}()

// bytesOf is the bytes of a token of the vocabulary; a token with a
// character outside the byte alphabet is itself.
func bytesOf(token string) string {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := byteOf[r]
		if !ok {
			return token
		}
		out = append(out, b)
	}
	return string(out)
}
