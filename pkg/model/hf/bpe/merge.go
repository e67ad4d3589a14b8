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

// idOf is the id of a token, or noToken.
func idOf(vocab map[string]int32, token string) int32 {
	if id, ok := vocab[token]; ok {
		return id
	}
	return noToken
}

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
	ahead := make([]merged, n) // of a token with the next one; the rank is gone where there is none
	const gone = -1
	var h candidates
	look := func(i int32) bool {
		ahead[i].rank = gone
		if int(next[i]) >= n {
			return false
		}
		w, ok := m.merges[pairOf(tokens[i], tokens[next[i]])]
		if ok {
			ahead[i] = w
		}
		return ok
	}
	for i := range int32(n) {
		next[i], prev[i] = i+1, i-1
		if look(i) {
			h = append(h, candidateOf(ahead[i].rank, i))
		}
	}
	h.order()
	for len(h) > 0 {
		rank, at := h.pop().split()
		if ahead[at].rank != rank {
			continue // one of the two was merged since
		}
		j := next[at]
		tokens[at], tokens[j] = ahead[at].id, gone
		ahead[j].rank = gone
		next[at] = next[j]
		if int(next[j]) < n {
			prev[next[j]] = at
		}
		if i := prev[at]; i >= 0 && look(i) {
			h.push(candidateOf(ahead[i].rank, i))
		}
		if look(at) {
			h.push(candidateOf(ahead[at].rank, at))
		}
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

// candidate is a merge of the token at a position with the next one: its rank, and in the low half the position, so
// that the lowest rank comes first, leftmost of equals.
type candidate uint64

func candidateOf(rank, at int32) candidate {
	return candidate(uint64(uint32(rank))<<32 | uint64(uint32(at)))
}

func (c candidate) split() (rank, at int32) { return int32(c >> 32), int32(uint32(c)) }

// candidates is a heap, the least on top, in which four follow each.
type candidates []candidate

func (h *candidates) push(c candidate) {
	s := append(*h, c)
	i := len(s) - 1
	for ; i > 0 && c < s[(i-1)/4]; i = (i - 1) / 4 {
		s[i] = s[(i-1)/4]
	}
	s[i] = c
	*h = s
}

// order makes a heap of candidates in any order.
func (h candidates) order() {
	for i := (len(h) - 2) / 4; i >= 0 && len(h) > 1; i-- {
		h.sink(i, h[i])
	}
}

func (h *candidates) pop() candidate {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	if len(s) > 0 {
		s.sink(0, last)
	}
	*h = s
	return top
}

// sink puts c at i or below.
func (h candidates) sink(i int, c candidate) {
	for {
		k := 4*i + 1
		if k >= len(h) {
			break
		}
		for j := k + 1; j < min(k+4, len(h)); j++ {
			if h[j] < h[k] {
				k = j
			}
		}
		if c <= h[k] {
			break
		}
		h[i] = h[k]
		i = k
	}
	h[i] = c
}
