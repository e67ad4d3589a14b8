package bpe

import (
	"fmt"
	"maps"

	"grpo/internal/jsonkeys"
)

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
			a.Content = t.normalize(a.Content, atStart)
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
	t.merger = &merger{chars: chars, cache: map[string][]int32{}}
	return t.merger.add(m.Vocab, m.Merges)
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
		m.bytes[b] = idOf(m.vocab, string([]byte{byte(b)}))
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
			m.chars.merging(a, b, pair[0], pair[1])
		}
	}
	return nil
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
