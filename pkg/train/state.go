package train

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rundir"
)

// state is what a run remembers besides weights and moments. It goes into the
// checkpoint whole.
type state struct {
	Step    int `json:"step"` // steps made
	Updates int `json:"updates"`
	// A checkpoint is written between steps: no pass over a rollout batch and no
	// train batch is ever half done, so these are 0, and one with other values
	// is not of this format.
	Epoch      int `json:"epoch"`
	MicroBatch int `json:"micro_batch"`
	// Seed keys every random stream, together with purpose, step, prompt, sample
	// and token; what the purposes are is the code's business, and the format's
	// number changes with it. Drawn is the data cursor: problems drawn so far.
	Seed  uint64 `json:"seed"`
	Drawn int    `json:"drawn"`
	// Inputs are what else a run depends on besides its configuration.
	Inputs  inputs  `json:"inputs"`
	Elapsed float64 `json:"elapsed_s"` // of former processes

	// The adaptive entropy coefficient, and what of it the next update applies.
	EntropyCoef  float64 `json:"entropy_coef"`
	EntropyApply float64 `json:"entropy_apply"`

	Initial rundir.Eval  `json:"initial"`
	Final   rundir.Eval  `json:"final"`
	Best    rundir.Eval  `json:"best"`
	Unseen  *rundir.Eval `json:"unseen"`
	Test    *rundir.Eval `json:"test"`

	// Signal counts informative groups, Right the right completions of training,
	// Completions all of them.
	Signal      int `json:"signal"`
	Groups      int `json:"groups"`
	Right       int `json:"right"`
	Completions int `json:"completions"`
	Checks      int `json:"checks"` // invariants that held

	DivergedAt     *int   `json:"diverged_at"`
	DivergedReason string `json:"diverged_reason"`
	// Stopped says that there is no next step: numbers are no longer finite.
	Stopped bool `json:"stopped"`

	// Moves are the changes of the device that the run went on with.
	Moves []string `json:"moves,omitempty"`

	// Logs are the JSONL files as they were when the checkpoint was written, by
	// name: later lines are cut, never written twice, and earlier lines must be
	// unchanged.
	Logs map[string]rundir.Prefix `json:"logs"`
}

// count adds the outcomes of a rollout.
func (s *state) count(r *rollout) {
	s.Groups += r.groups()
	s.Signal += r.groups() - r.zeroAdvantage
	s.Completions += len(r.completions)
	for _, v := range r.verdicts {
		if v.Right {
			s.Right++
		}
	}
}

// inputs are hashes of what a run reads from files. Its configuration only names
// them, and a file can change between an interruption and the next day.
type inputs struct {
	Problems string `json:"problems"`          // every split but the supervised one
	Init     string `json:"init"`              // the first weights
	Teacher  string `json:"teacher,omitempty"` // empty without
}

// differ names the keys of the inputs that are not the same, with a word on
// what they are.
func (in inputs) differ(now inputs) []string {
	var out []string
	for _, f := range []struct{ what, a, b string }{
		{"the problems (data.*)", in.Problems, now.Problems},
		{"the first weights (model.init)", in.Init, now.Init},
		{"the teacher's weights (algorithm.teacher)", in.Teacher, now.Teacher},
	} {
		if f.a != f.b {
			out = append(out, f.what)
		}
	}
	return out
}

// hashProblems is the SHA-256 of all that a run can learn from or is evaluated on.
func hashProblems(p *Problems) string {
	h := sha256.New()
	for _, split := range [][]gsm8k.Problem{p.Train, p.Val, p.Test, p.Unseen} {
		fmt.Fprintf(h, "%d\n", len(split))
		for _, x := range split {
			for _, text := range []string{x.ID, x.Question, x.Answer, x.Gold} {
				writeText(h, text)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// writeText hashes a text with its length before it, so that no two lists of
// texts give the same bytes.
func writeText(h hash.Hash, text string) {
	n := len(text)
	h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
	h.Write([]byte(text))
}

// logs are the open JSONL files of a run.
type logs struct{ metrics, eval, samples *rundir.Log }

// named lists the logs with their names.
func (l *logs) named() []struct {
	name string
	log  **rundir.Log
} {
	return []struct {
		name string
		log  **rundir.Log
	}{{rundir.MetricsFile, &l.metrics}, {rundir.EvalFile, &l.eval}, {rundir.SamplesFile, &l.samples}}
}

func (l *logs) sync() error {
	for _, f := range l.named() {
		if err := (*f.log).Sync(); err != nil {
			return err
		}
	}
	return nil
}

// prefixes returns length and checksum of the logs.
func (l *logs) prefixes() map[string]rundir.Prefix {
	out := map[string]rundir.Prefix{}
	for _, f := range l.named() {
		out[f.name] = rundir.Prefix{Bytes: (*f.log).Size(), SHA256: (*f.log).Sum()}
	}
	return out
}

func (l *logs) close() {
	for _, f := range l.named() {
		if *f.log != nil {
			_ = (*f.log).Close() // synced before whatever matters
		}
	}
}
