package config

import (
	"slices"
	"strings"
)

// loraRate is how much higher the learning rate of adapters is than that of all weights
// (Schulman and Thinking Machines Lab, "LoRA without regret", 2025).
const loraRate = 10

// useLoRARate raises the default learning rate under LoRA. A rate of the source that sets
// the rank, or of a stronger one, is meant for the adapters.
func (l *Loaded[T]) useLoRARate() {
	c, ok := any(&l.Config).(*Config)
	if !ok || c.Train.LoRA.Rank == 0 {
		return
	}
	const key = "train.learning_rate"
	rate, rank := l.origins[key], l.origins["train.lora.rank"]
	if rank.AskedBy != "" {
		rank = l.origins[rank.AskedBy]
	}
	if rate.Source <= SourceEmbedded && rate.Source < rank.Source {
		rate.AskedBy = "train.lora.rank"
		c.Train.LearningRate, l.origins[key] = loraRate*c.Train.LearningRate, rate
	}
}

// followAdapters takes the form of the adapters at model.init. A different one set by the
// user is an error: a run trains these adapters further.
func (l *Loaded[T]) followAdapters(found *LoRA) (problems []string) {
	var lora *LoRA
	var m Model
	prefix := "lora."
	switch c := any(&l.Config).(type) {
	case *Config:
		lora, m, prefix = &c.Train.LoRA, c.Model, "train.lora."
	case *SFT:
		lora, m = &c.LoRA, c.Model
	}
	was := *lora
	*lora = *found
	for _, k := range []struct {
		key  string
		same bool
	}{
		{"rank", was.Rank == found.Rank}, {"alpha", was.Alpha == found.Alpha},
		{"targets", sameSet(was.Targets, found.Targets)}, {"use_rslora", was.UseRSLoRA == found.UseRSLoRA},
	} {
		key := prefix + k.key
		switch o := l.origins[key]; {
		case k.same:
		case o.Source > SourceEmbedded:
			problems = append(problems, key+" ("+o.String()+") contradicts model.init ("+m.Init+"): the adapters "+
				"there are trained further as they are; leave "+strings.TrimSuffix(prefix, ".")+" out, or merge them into their base first")
		default:
			l.origins[key] = Origin{AskedBy: "model.init"}
		}
	}
	return problems
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
