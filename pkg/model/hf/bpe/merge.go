package bpe

import (
	"strings"
	"sync"
)

// merged is what two neighbouring tokens become, and the rank of that merge: the
// lowest rank in a piece is merged first.
type merged struct{ rank, id int32 }

func pairOf(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// merger turns pieces into tokens.
type merger struct {
	merges       map[uint64]merged
	vocab        map[string]int32 // by the bytes of a token
	ignoreMerges bool
	bytes        [256]int32  // tokens of single bytes, or noToken
	chars        *characters // of SentencePiece-style BPE, instead of bytes; else nil

	mu    sync.Mutex
	cache map[string][]int32
}

// noToken marks a byte that a vocabulary lacks, as SmolLM2's lacks some control
// characters. Like the library, the tokenizer leaves it out.
const noToken = -1

// maxCached bounds the cache: beyond it, or for a long piece, nothing is added.
const maxCached, maxCachedPiece = 1 << 16, 64

// encode appends the tokens of a piece.
func (m *merger) encode(out []int32, piece string) []int32 {
	if m.chars == nil {
		return m.encodeWord(out, piece)
	}
	if id, ok := m.chars.whole[piece]; ok {
		return append(out, id)
	}
	m.chars.words(piece, func(word string) { out = m.encodeWord(out, word) })
	return out
}

// encodeWord appends the tokens of a piece, or of a part of one that nothing is merged with.
func (m *merger) encodeWord(out []int32, piece string) []int32 {
	m.mu.Lock()
	ids, ok := m.cache[piece]
	m.mu.Unlock()
	if ok {
		return append(out, ids...)
	}
	start := len(out)
	if id, ok := m.vocab[piece]; ok && m.ignoreMerges {
		out = append(out, id)
	} else {
		if m.chars != nil {
			out = m.chars.encode(out, piece)
		} else {
			out = m.encodeBytes(out, piece)
		}
		if n := len(out) - start; n > longPiece {
			out = out[:start+m.mergeLong(out[start:])]
		} else {
			out = out[:start+m.mergeScan(out[start:])]
		}
	}
	if len(piece) <= maxCachedPiece {
		m.mu.Lock()
		if len(m.cache) < maxCached {
			m.cache[strings.Clone(piece)] = append([]int32(nil), out[start:]...)
		}
		m.mu.Unlock()
	}
	return out
}

// encodeBytes appends the tokens of the single bytes of a piece.
func (m *merger) encodeBytes(out []int32, piece string) []int32 {
	for i := range len(piece) {
		if id := m.bytes[piece[i]]; id != noToken {
			out = append(out, id)
		}
	}
	return out
}

// mergeScan applies the merges to tokens in place, looking at all pairs for each, and
// returns how many tokens remain.
func (m *merger) mergeScan(tokens []int32) int {
	for n := len(tokens); ; n-- {
		best, at := merged{rank: -1}, 0
		for i := 0; i+1 < n; i++ {
			if w, ok := m.merges[pairOf(tokens[i], tokens[i+1])]; ok && (best.rank < 0 || w.rank < best.rank) {
				best, at = w, i
			}
		}
		if best.rank < 0 {
			return n
		}
		tokens[at] = best.id
		copy(tokens[at+1:], tokens[at+2:n])
	}
}

// longPiece is the length from which a heap is faster than the quadratic scan.
const longPiece = 48

// mergeLong is mergeScan with a heap of candidates, for pieces without white space
// that are thousands of bytes long.
func (m *merger) mergeLong(tokens []int32) int {
	n := len(tokens)
	next, prev := make([]int32, n), make([]int32, n)
	for i := range tokens {
		next[i], prev[i] = int32(i+1), int32(i-1)
	}
	var h candidates
	push := func(i int32) {
		if i < 0 || int(next[i]) >= n {
			return
		}
		if w, ok := m.merges[pairOf(tokens[i], tokens[next[i]])]; ok {
			h.push(candidate{w, i, tokens[i], tokens[next[i]]})
		}
	}
	for i := range int32(n) {
		push(i)
	}
	const gone = -1
	for len(h) > 0 {
		c := h.pop()
		j := int32(n)
		if tokens[c.at] == c.left {
			j = next[c.at]
		}
		if int(j) >= n || tokens[j] != c.right {
			continue // one of the two was merged since
		}
		tokens[c.at], tokens[j] = c.id, gone
		next[c.at] = next[j]
		if int(next[j]) < n {
			prev[next[j]] = c.at
		}
		push(prev[c.at])
		push(c.at)
	}
	k := 0
	for _, t := range tokens {
		if t != gone {
			tokens[k] = t
			k++
		}
	}
	return k
}

// candidate is a merge of the token at a position with the next one.
type candidate struct {
	merged
	at          int32
	left, right int32
}

func (c candidate) less(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// candidates is a binary heap, lowest rank first, leftmost of equals.
type candidates []candidate

func (h *candidates) push(c candidate) {
	s := append(*h, c)
	for i := len(s) - 1; i > 0 && s[i].less(s[(i-1)/2]); i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
	*h = s
}

func (h *candidates) pop() candidate {
	s := *h
	top, n := s[0], len(s)-1
	s[0], s = s[n], s[:n]
	for i := 0; ; {
		k := 2*i + 1
		if k >= n {
			break
		}
		if k+1 < n && s[k+1].less(s[k]) {
			k++
		}
		if !s[k].less(s[i]) {
			break
		}
		s[i], s[k] = s[k], s[i]
		i = k
	}
	*h = s
	return top
}
