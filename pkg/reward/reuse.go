package reward

import (
	"crypto/sha256"
	"encoding/json"
)

// memory has the scores of completions for a function whose score of a completion depends on that completion alone: not
// on the step, not on the others of its batch. With it such a function scores equal completions once. What it forgets
// is scored again, with the same result.
type memory struct {
	known map[completionKey]score
	bytes int // about, of known
}

// maxMemory bounds a memory, in bytes. A score without columns takes about scoreBytes.
const (
	maxMemory  = 64 << 20
	scoreBytes = 128
)

// completionKey is the hash of all that a function is told about a completion.
type completionKey [sha256.Size]byte

// score is that of one completion.
type score struct {
	reward  float64
	columns map[string]any
}

func newMemory() *memory { return &memory{known: map[completionKey]score{}} }

// score returns the scores of a batch. It asks for the completions that it does not know, each once, as groups of one.
// If ask says that they are not to be kept, because the function failed, they are asked again in the next batch.
func (m *memory) score(b Batch, ask func(Batch) (s Scores, keep bool, err error)) (Scores, error) {
	keys, scores := make([]completionKey, len(b.Completions)), make([]score, len(b.Completions))
	fresh := Batch{Step: b.Step, MaxTokens: b.MaxTokens, GroupSize: 1}
	asked := map[completionKey]int{} // the place in fresh
	for i, c := range b.Completions {
		text, err := json.Marshal(request{Version: Version, MaxTokens: b.MaxTokens, Completions: []Completion{c}})
		if err != nil {
			return Scores{}, err
		}
		keys[i] = sha256.Sum256(text)
		known, ok := m.known[keys[i]]
		if scores[i] = known; ok {
			continue
		}
		if _, ok := asked[keys[i]]; !ok {
			asked[keys[i]] = len(fresh.Completions)
			fresh.Completions = append(fresh.Completions, c)
		}
	}
	if len(fresh.Completions) == 0 {
		return together(scores), nil
	}
	s, keep, err := ask(fresh)
	if err != nil {
		return Scores{}, err
	}
	for i, key := range keys {
		place, ok := asked[key]
		if !ok {
			continue
		}
		scores[i] = s.of(place)
		if _, known := m.known[key]; keep && !known {
			m.keep(key, scores[i])
		}
	}
	return together(scores), nil
}

// keep remembers a score. A memory that is full forgets all others.
func (m *memory) keep(key completionKey, s score) {
	size := scoreBytes
	for name, v := range s.columns {
		text, _ := v.(string)
		size += scoreBytes + len(name) + len(text)
	}
	if m.bytes += size; m.bytes > maxMemory {
		clear(m.known)
		m.bytes = size
	}
	m.known[key] = s
}

// of is the score of completion i.
func (s Scores) of(i int) score {
	out := score{reward: s.Rewards[i]}
	for name, values := range s.Columns {
		if values[i] != nil {
			if out.columns == nil {
				out.columns = map[string]any{}
			}
			out.columns[name] = values[i]
		}
	}
	return out
}

// together are the scores of a batch. A column that a completion does not have is nil there.
func together(scores []score) Scores {
	out := Scores{Rewards: make([]float64, len(scores))}
	for i, s := range scores {
		out.Rewards[i] = s.reward
		for name, v := range s.columns {
			if out.Columns == nil {
				out.Columns = map[string][]any{}
			}
			if out.Columns[name] == nil {
				out.Columns[name] = make([]any, len(scores))
			}
			out.Columns[name][i] = v
		}
	}
	return out
}
