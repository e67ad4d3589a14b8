package train

import (
	"fmt"
	"slices"

	"grpo/pkg/gsm8k"
)

// packs returns what the batches of a stage are drawn from: its examples, each by itself or, with
// packing, in packs of whole examples. It counts the examples that max_length cuts or drops; kind is
// what a note or an error calls them.
func (s *sft) packs(i int, kind string, corpus []gsm8k.Example, rec *StageRecord) ([][]sftRow, error) {
	c := s.cfg.Stages[i]
	var rows []sftRow
	for _, e := range corpus {
		row := tokenize(s.Policy, s.template, e, s.end, c.PromptLossWeight)
		if c.MaxLength > 0 && row.length() > c.MaxLength {
			var left bool
			if row, left = row.cut(c.MaxLength); !left {
				rec.Dropped++
				continue
			}
			rec.Cut++
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("stage %q: no %s example has a token of the loss within max_length (%d tokens): raise it",
			c.Name, kind, c.MaxLength)
	}
	if rec.Cut+rec.Dropped > 0 {
		s.opts.Observer.Note(fmt.Sprintf("stage %q: of %d %s examples, %d are cut at max_length (%d tokens) and %d dropped, "+
			"which have no token of the loss before it", c.Name, len(corpus), kind, rec.Cut, c.MaxLength, rec.Dropped))
	}
	if c.Packing {
		return pack(rows, c.MaxLength), nil
	}
	out := make([][]sftRow, len(rows))
	for k := range rows {
		out[k] = rows[k : k+1]
	}
	return out, nil
}

// length is the number of tokens of a row.
func (r sftRow) length() int { return len(r.prompt) + len(r.tokens) }

// cut returns a row's first n tokens, and whether any of them is in the loss.
func (r sftRow) cut(n int) (sftRow, bool) {
	keep := min(max(0, n-len(r.prompt)), len(r.tokens))
	r.tokens, r.weights = r.tokens[:keep], r.weights[:keep]
	return r, slices.ContainsFunc(r.weights, func(w float64) bool { return w > 0 })
}

// pack puts rows into packs of at most size tokens: the longest first, each into the fullest pack
// that has room (best-fit decreasing). No row may be longer than size.
func pack(rows []sftRow, size int) [][]sftRow {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b sftRow) int { return b.length() - a.length() })
	var packs [][]sftRow
	withRoom := make([][]int, size+1) // the packs by the number of tokens that are free
	for _, r := range sorted {
		free := r.length()
		for free < size && len(withRoom[free]) == 0 {
			free++
		}
		at := len(packs)
		if last := len(withRoom[free]) - 1; last >= 0 {
			at, withRoom[free] = withRoom[free][last], withRoom[free][:last]
		} else {
			packs = append(packs, nil)
			free = size
		}
		packs[at] = append(packs[at], r)
		withRoom[free-r.length()] = append(withRoom[free-r.length()], at)
	}
	return packs
}
