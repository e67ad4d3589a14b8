// Package budget bounds the memory and the disk space of a command before it starts. The bounds are simple: never
// below what is used, and at most about a third above it.
package budget

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/policy"
)

// Memory bounds the peak memory of a command. It assumes that every completion has as many tokens as it may have.
// For a run that may use a GPU it counts host memory only: the device refuses what does not fit.
type Memory struct {
	Parts []Part
	// longPrompts names prompts that are much longer than the others, if any; rest is the total
	// without them.
	longPrompts string
	rest        float64
	// adapters is the bound with adapters of usualRank instead of all weights, and rankKey the key
	// that asks for them; nil if there can be none, or are already.
	adapters func() Memory
	rankKey  string
}

// usualRank is the rank of adapters that an error suggests.
const usualRank = 16

// Part is one part of a bound.
type Part struct {
	What  string
	Bytes float64
	Lower string // how to make it smaller
}

// MemoryCheck accepts or rejects a bound before the first step; its error ends the command before
// any file is written. A nil check accepts everything.
type MemoryCheck func(Memory) error

// Pass calls the check.
func (f MemoryCheck) Pass(m Memory) error {
	if f == nil {
		return nil
	}
	return f(m)
}

// orAdapters returns the bound of a model, which may train adapters instead if the key asks for them.
func orAdapters(m *policy.Model, key string, bound func(*policy.Model) Memory) Memory {
	need := bound(m)
	if m.IsDecoder() && m.LoRA.Rank == 0 {
		lora := m.LoRA
		lora.Rank = usualRank
		need.rankKey, need.adapters = key, func() Memory { return bound(m.WithLoRA(lora)) }
	}
	return need
}

// Total is the sum of the parts.
func (m Memory) Total() float64 {
	var sum float64
	for _, p := range m.Parts {
		sum += p.Bytes
	}
	return sum
}

// Fits returns an error if the total exceeds the available bytes. The error names the largest parts
// and how to make them smaller. available 0 means unknown: everything fits.
func (m Memory) Fits(available int64) error {
	total := m.Total()
	if available <= 0 || total <= float64(available) {
		return nil
	}
	parts := slices.Clone(m.Parts)
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Bytes, a.Bytes) })
	var largest []string
	for _, p := range parts[:min(3, len(parts))] {
		if p.Bytes < total/20 {
			break
		}
		line := fmt.Sprintf("%s for %s", Bytes(p.Bytes), p.What)
		if p.Lower != "" {
			line += " (" + p.Lower + ")"
		}
		largest = append(largest, line)
	}
	cause := ""
	if m.longPrompts != "" && m.rest <= float64(available) {
		cause = "the cause is " + m.longPrompts + "; "
	}
	if m.adapters != nil {
		if with := m.adapters().Total(); with < total {
			cause += fmt.Sprintf("set %s to %d, which trains adapters instead of all weights and needs up to %s; ",
				m.rankKey, usualRank, Bytes(with))
		}
	}
	return fmt.Errorf("%w: not enough memory: this needs up to %s, and %s are available: %s%s; "+
		"set GRPO_MEMORY=off to skip this check",
		config.ErrConfig, Bytes(total), Bytes(float64(available)), cause, strings.Join(largest, ", "))
}

// NeedLess says how a run of cfg could need less memory, what helps most first.
func NeedLess(m *policy.Model, cfg config.Config) string {
	var ways []string
	if m.IsDecoder() && cfg.Train.LoRA.Rank == 0 {
		ways = append(ways, fmt.Sprintf("train adapters (train.lora.rank=%d)", usualRank))
	}
	r := cfg.Rollout
	smaller := fmt.Sprintf("raise train.gradient_accumulation_steps, now %d", cfg.Train.GradientAccumulationSteps)
	if limit := m.MicroBatchTokens(cfg.Train.MicroBatchTokens); limit > 0 {
		smaller = fmt.Sprintf("lower train.micro_batch_tokens, now %d", limit)
	}
	return strings.Join(append(ways, smaller, fmt.Sprintf("lower rollout.rollout_batch_size, now %d, or "+
		"rollout.sampling_max_tokens, now %d", r.RolloutBatchSize, r.SamplingMaxTokens)), "; ")
}

// AfterKill is the advice for a run of cfg whose process may have been killed for lack of memory: the
// bound of what it needs, the bytes available now (0 = unknown), and how to need less.
func AfterKill(m *policy.Model, cfg config.Config, need Memory, available int64) string {
	have := ""
	if available > 0 {
		have = fmt.Sprintf(", and %s are available now", Bytes(float64(available)))
	}
	return fmt.Sprintf("if the system killed it for lack of memory (the estimate is up to %s%s): %s",
		Bytes(need.Total()), have, NeedLess(m, cfg))
}

// Bytes formats an amount of memory.
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
