package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"os"
	"slices"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/safetensors"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

type filePairs struct {
	path   string
	list   []policy.Pair // nil without a file
	report policy.PairReport
	end    []int // the model's end tokens
	// reference has the log-probabilities of the completions' tokens under the reference policy: the
	// chosen completion of pair i is element 2i, the rejected one 2i+1. It is nil until they are known;
	// an element is nil for a pair that the run does not reach.
	reference [][]float32
}

// readPairs reads the pairs of the run's files, if it has any.
func (d *trainData) readPairs(m *policy.Model, c config.Config) error {
	if c.Algorithm.Type != "dpo" {
		return nil
	}
	end := m.Tokenizer.End()
	for _, f := range []struct {
		to        *filePairs
		path, key string
	}{
		{&d.pairs, c.Algorithm.DPO.PairsFile, "algorithm.dpo.pairs_file"},
		{&d.evalPairs, c.Algorithm.DPO.EvalPairsFile, "algorithm.dpo.eval_pairs_file"},
	} {
		if f.path == "" {
			continue
		}
		list, report, err := m.ReadPairs(f.path, f.key, c.Data.SkipBad)
		if err != nil {
			return err
		}
		*f.to = filePairs{path: f.path, list: list, report: report, end: end}
	}
	return nil
}

// hashPairs is the SHA-256 of the tokens of all pairs; empty without pairs.
func (d *trainData) hashPairs() string {
	if d.pairs.list == nil && d.evalPairs.list == nil {
		return ""
	}
	h := sha256.New()
	for _, p := range []filePairs{d.pairs, d.evalPairs} {
		hashTokens(h, []int{len(p.list)})
		for _, pair := range p.list {
			hashPair(h, pair)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashPair(h hash.Hash, p policy.Pair) {
	for _, tokens := range [][]int{p.Prompt, p.Chosen, p.Rejected} {
		hashTokens(h, tokens)
	}
}

// hashTokens adds tokens after their number, so different lists never give the same bytes.
func hashTokens(h hash.Hash, tokens []int) {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(tokens)))
	for _, id := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	h.Write(b) // a hash returns no error
}

// rollout returns the given pairs as groups of two completions.
func (p filePairs) rollout(which []int) *rollout {
	r := &rollout{groupSize: 2}
	for _, k := range which {
		pair := p.list[k]
		r.prompts = append(r.prompts, pair.Prompt)
		for _, tokens := range [][]int{pair.Chosen, pair.Rejected} {
			ended := slices.Contains(p.end, tokens[len(tokens)-1])
			r.completions = append(r.completions, model.Completion{Tokens: tokens, Ended: ended})
		}
	}
	r.layOut()
	if p.reference != nil {
		r.reference = make([]float64, r.shape.Len())
		for i, k := range which {
			for side, logProbs := range p.reference[2*k : 2*k+2] {
				for at, lp := range logProbs {
					r.reference[(2*i+side)*r.shape.T+at] = float64(lp)
				}
			}
		}
	}
	r.pairs = span(0, len(r.completions))
	return r
}

// drawPairs returns the next pairs of the file: rollout_batch_size completions.
func (t *trainer) drawPairs() *rollout {
	which := make([]int, t.cfg.Rollout.RolloutBatchSize/2)
	for i := range which {
		which[i] = t.data.order.At(t.state.Drawn)
		t.state.Drawn++
	}
	return t.data.pairs.rollout(which)
}

// drawn lists the pairs of the file that the run draws, in the order of the file.
func (t *trainer) drawn() []int {
	n := len(t.data.pairs.list)
	all := t.cfg.Train.NGRPOSteps * (t.cfg.Rollout.RolloutBatchSize / 2)
	if all >= n {
		return span(0, n)
	}
	out := make([]int, all)
	order := t.data.order
	for i := range out {
		out[i] = order.At(i)
	}
	slices.Sort(out)
	return out
}

// addPairMetrics adds the metrics of pairs of a file: there are no rewards.
func (r *rollout) addPairMetrics(m *rundir.Metrics) {
	nan := math.NaN()
	m.Reward, m.Rewards = rundir.Stat{Mean: nan, Std: nan}, map[string]rundir.Stat{}
	m.AnswerReward, m.FormatReward, m.FracRewardZeroStd = nan, nan, nan
	truncated := 0
	for _, c := range r.completions {
		if !c.Ended {
			truncated++
		}
	}
	n := float64(len(r.completions))
	m.Length, m.FracTruncated = float64(r.tokens)/n, float64(truncated)/n
}

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

// reference is the expected content of the file of reference log-probabilities.
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
	f := &reference{
		path: t.path(rundir.CheckpointDir, referenceFile), sets: []*filePairs{&t.data.pairs, &t.data.evalPairs},
		which: [][]int{nil, span(0, len(t.data.evalPairs.list))},
	}
	if t.data.pairs.list != nil {
		f.which[0] = t.drawn()
	}
	h := sha256.New()
	h.Write([]byte(t.inputs.Init)) // a hash returns no error
	for i, set := range f.sets {
		hashTokens(h, f.which[i])
		for _, k := range f.which[i] {
			hashPair(h, set.list[k])
			f.tokens += len(set.list[k].Chosen) + len(set.list[k].Rejected)
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
		return fmt.Errorf("read the reference log-probabilities: %w (remove the file, and the same command "+
			"computes them again)", err)
	}
	for i, set := range f.sets {
		set.reference = make([][]float32, 2*len(set.list))
		for _, k := range f.which[i] {
			for side, completion := range [][]int{set.list[k].Chosen, set.list[k].Rejected} {
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
		return nil, fmt.Errorf("%s has log-probabilities of other weights or other pairs than this run's", f.path)
	}
	return x.Data, nil
}

// computeReference scores the pairs with the policy.
func (t *trainer) computeReference(f *reference) ([]float32, error) {
	t.note("computing the log-probabilities of %d pairs, %d tokens, under the reference policy",
		len(f.which[0])+len(f.which[1]), f.tokens)
	scorer, err := t.Policy.NewScorer(pairTemperature)
	if err != nil {
		return nil, err
	}
	defer scorer.Close()
	out := make([]float32, 0, f.tokens)
	for i, set := range f.sets {
		for part := range slices.Chunk(f.which[i], pairsAtOnce) {
			if t.ctx.Err() != nil {
				return nil, t.interruptedEarly()
			}
			t.opts.Progress.Count("scoring pairs under the reference policy", "token", len(out), f.tokens)
			r := set.rollout(part)
			logProbs, err := t.logProbs(scorer, r, t.pairParts(r, r.pairs), "scoring pairs under the reference policy")
			if err != nil {
				return nil, err
			}
			for at, in := range r.mask {
				if in {
					out = append(out, float32(logProbs[at]))
				}
			}
		}
	}
	return out, nil
}
