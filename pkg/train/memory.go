package train

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rundir"
)

// Memory is what a run needs at its peak, as far as its settings tell before
// anything is allocated: every completion is taken to be sampling_max_tokens
// long.
type Memory struct {
	Parts []MemoryPart
	// longPrompts names the problems at fault where a few prompts are much
	// longer than the others; rest is the total without them.
	longPrompts string
	rest        float64
}

// MemoryPart is one part of it, in bytes.
type MemoryPart struct {
	What  string
	Bytes float64
	Lower string // what makes it smaller
}

// MemoryCheck decides on an estimate before the first step; its error ends the
// run before anything is written. A nil check passes everything.
type MemoryCheck func(Memory) error

func (f MemoryCheck) pass(m Memory) error {
	if f == nil {
		return nil
	}
	return f(m)
}

// checkMemory asks for the memory of a run that is not done yet: to show a result
// takes none.
func (t *trainer) checkMemory() error {
	if _, err := os.Stat(t.path(rundir.ResultFile)); err == nil || t.opts.Memory == nil {
		return nil
	}
	m, err := MemoryOf(t.cfg, t.data.problems, t.opts.Threads)
	if err != nil {
		return err
	}
	return t.opts.Memory(m)
}

// Total is the sum of the parts.
func (m Memory) Total() float64 {
	var sum float64
	for _, p := range m.Parts {
		sum += p.Bytes
	}
	return sum
}

// Fits returns an error that names the largest parts, and what makes them
// smaller, where the total is above the bytes available. 0 means an unknown
// amount, which everything fits.
func (m Memory) Fits(available int64) error {
	total := m.Total()
	if available <= 0 || total <= float64(available) {
		return nil
	}
	parts := slices.SortedStableFunc(slices.Values(m.Parts), func(a, b MemoryPart) int { return cmp.Compare(b.Bytes, a.Bytes) })
	var largest []string
	for _, p := range parts[:min(3, len(parts))] {
		if p.Bytes < total/20 {
			break
		}
		text := fmt.Sprintf("%s for %s", Bytes(p.Bytes), p.What)
		if p.Lower != "" {
			text += " (" + p.Lower + ")"
		}
		largest = append(largest, text)
	}
	cause := ""
	if m.longPrompts != "" && m.rest <= float64(available) {
		cause = "the cause is " + m.longPrompts + "; "
	}
	return fmt.Errorf("%w: not enough memory: this needs up to %s, and %s are available: %s%s; GRPO_MEMORY=off tries it all the same",
		config.ErrConfig, Bytes(total), Bytes(float64(available)), cause, strings.Join(largest, ", "))
}

// Bytes writes an amount of memory for people.
func Bytes(n float64) string {
	unit := "MiB"
	if n /= 1 << 20; n >= 1000 {
		n, unit = n/1024, "GiB"
	}
	if n >= 1000 && unit == "GiB" {
		n, unit = n/1024, "TiB"
	}
	if n < 10 {
		return fmt.Sprintf("%.1f %s", n, unit)
	}
	return fmt.Sprintf("%.0f %s", n, unit)
}

// blameLongPrompts looks for prompts that are much longer than the others.
func (m *Memory) blameLongPrompts(cfg config.Config, p *Problems, template gsm8k.Template, lengths []int, threads int) {
	if len(lengths) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(lengths))
	limit := 10 * sorted[len(sorted)/2]
	var usual []int
	longest, count := 0, 0
	for i, n := range lengths {
		if n <= limit {
			usual = append(usual, n)
			continue
		}
		count++
		if n > lengths[longest] || count == 1 {
			longest = i
		}
	}
	if count == 0 {
		return
	}
	m.rest = Memory{Parts: runParts(cfg, p, template, usual, threads)}.Total()
	worst := p.Train[longest]
	where := fmt.Sprintf("problem %q", worst.ID)
	if worst.Line > 0 {
		where = fmt.Sprintf("%s: line %d", cfg.Data.TrainFile, worst.Line)
	}
	m.longPrompts = fmt.Sprintf("the prompt of %s, which has %d tokens (half of the prompts have %d or fewer): shorten it or leave it out",
		where, lengths[longest], sorted[len(sorted)/2])
	if count > 1 {
		m.longPrompts = fmt.Sprintf("%d long prompts, the longest that of %s, which has %d tokens (half of the prompts have %d or fewer): shorten them or leave them out",
			count, where, lengths[longest], sorted[len(sorted)/2])
	}
}
