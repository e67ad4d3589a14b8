package train

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"

	"grpo/internal/regular"
	"grpo/pkg/model/safetensors"
	"grpo/pkg/rundir"
)

// The reference policy of dpo does not change, so the log-probabilities of a file's pairs are computed
// once, before the first step, and kept in checkpoint/reference.safetensors: a tensor with those of
// all tokens, and in the metadata a hash of what produced them.
const (
	referenceFile = "reference.safetensors"
	referenceKey  = "grpo.reference"
	referenceName = "logprobs"
)

// pairsAtOnce bounds the pairs that are scored at a time, besides train.micro_batch_tokens.
const pairsAtOnce = 32

// reference is the content that the file of reference log-probabilities must have.
type reference struct {
	path   string
	sets   []*filePairs
	which  [][]int // the pairs of each set that the run scores
	tokens int     // of their completions
	hash   string  // of the initial weights and these pairs
}

// referenceOf describes the file of a run; nil without pairs of files.
func (t *trainer) referenceOf() *reference {
	if t.data.pairs.list == nil && t.data.evalPairs.list == nil {
		return nil
	}
	f := &reference{path: t.path(rundir.CheckpointDir, referenceFile), sets: []*filePairs{&t.data.pairs, &t.data.evalPairs}}
	f.which = [][]int{nil, span(0, len(t.data.evalPairs.list))}
	if t.data.pairs.list != nil {
		f.which[0] = t.drawn()
	}
	h := sha256.New()
	h.Write([]byte(t.inputs.Init)) // a hash returns no error
	for i, set := range f.sets {
		hashTokens(h, f.which[i])
		for _, k := range f.which[i] {
			set.list[k].hash(h)
			f.tokens += len(set.list[k].chosen) + len(set.list[k].rejected)
		}
	}
	f.hash = hex.EncodeToString(h.Sum(nil))
	return f
}

// writeReference computes and writes the file, unless it is there. The policy must still have its
// initial weights.
func (t *trainer) writeReference() error {
	f := t.referenceOf()
	if f == nil {
		return nil
	}
	if _, err := os.Lstat(f.path); err == nil {
		return nil
	}
	numbers, err := t.computeReference(f)
	if err != nil {
		return err
	}
	all := safetensors.Tensor{Name: referenceName, Dtype: "F32", Shape: []int{f.tokens}, Data: numbers}
	return rundir.WriteAtomic(f.path, func(file *os.File) error {
		return safetensors.WriteChecksummed(file, []safetensors.Tensor{all}, map[string]string{referenceKey: f.hash})
	})
}

// readReference reads the file.
func (t *trainer) readReference() error {
	f := t.referenceOf()
	if f == nil {
		return nil
	}
	numbers, err := f.read()
	if err != nil {
		return fmt.Errorf("read the reference log-probabilities: %w (remove the file, and the same command computes them again)", err)
	}
	for i, set := range f.sets {
		set.reference = make([][]float32, 2*len(set.list))
		for _, k := range f.which[i] {
			for side, completion := range [][]int{set.list[k].chosen, set.list[k].rejected} {
				n := len(completion)
				set.reference[2*k+side], numbers = numbers[:n:n], numbers[n:]
			}
		}
	}
	return nil
}

func (f *reference) read() ([]float32, error) {
	if err := regular.Check(f.path, regular.MaxCheckpoint); err != nil {
		return nil, err
	}
	file, err := safetensors.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	x, _ := file.Get(referenceName)
	switch {
	case !file.Checksummed:
		return nil, fmt.Errorf("%s has lost its checksum", f.path)
	case file.Metadata[referenceKey] != f.hash || len(x.Data) != f.tokens:
		return nil, fmt.Errorf("%s has those of other weights or other pairs than this run's", f.path)
	}
	return x.Data, nil
}

// computeReference scores the pairs with the policy.
func (t *trainer) computeReference(f *reference) ([]float32, error) {
	t.note("computing the log-probabilities of %d pairs, %d tokens, under the reference policy",
		len(f.which[0])+len(f.which[1]), f.tokens)
	scorer, err := t.policy.NewScorer(pairTemperature)
	if err != nil {
		return nil, err
	}
	defer scorer.Close()
	out := make([]float32, 0, f.tokens)
	for i, set := range f.sets {
		for part := range slices.Chunk(f.which[i], pairsAtOnce) {
			if t.ctx.Err() != nil {
				return nil, ErrNothingSaved
			}
			t.opts.Progress.Count("scoring pairs under the reference policy", "token", len(out), f.tokens)
			r, rows := set.rollout(part)
			x, err := t.scoreRows(scorer, r, rows)
			if err != nil {
				return nil, fmt.Errorf("score pairs under the reference policy: %w", err)
			}
			for at, in := range x.Mask {
				if in {
					out = append(out, float32(x.LogProbs[at]))
				}
			}
		}
	}
	return out, nil
}
