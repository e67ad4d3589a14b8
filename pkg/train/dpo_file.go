package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
)

// filePairs are the pairs of a file.
type filePairs struct {
	path   string
	list   []pairTokens // nil without a file
	report pairReport
	end    []int // the model's end tokens
	// reference has the log-probabilities of the completions' tokens under the reference policy: the
	// chosen completion of pair i is element 2i, the rejected one 2i+1. It is nil until they are known;
	// an element is nil for a pair that the run does not reach.
	reference [][]float32
}

// readPairs reads the pairs of the run's files, if it has any.
func (d *trainData) readPairs(c config.Config) error {
	if c.Algorithm.Type != "dpo" {
		return nil
	}
	end := tokenizerOf(c.Model).End()
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
		list, report, err := readPairs(f.path, f.key, c.Model, c.Data.SkipBad)
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
			pair.hash(h)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (p pairTokens) hash(h hash.Hash) {
	for _, tokens := range [][]int{p.prompt, p.chosen, p.rejected} {
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
func (p filePairs) rollout(which []int) (*rollout, pairRows) {
	r := &rollout{groupSize: 2}
	for _, k := range which {
		pair := p.list[k]
		r.prompts = append(r.prompts, pair.prompt)
		for _, tokens := range [][]int{pair.chosen, pair.rejected} {
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
	return r, span(0, len(r.completions))
}

// drawPairs returns the next pairs of the file: rollout_batch_size completions.
func (t *trainer) drawPairs() (*rollout, pairRows) {
	which := make([]int, t.cfg.Rollout.RolloutBatchSize/2)
	for i := range which {
		which[i] = t.data.order.at(t.state.Drawn)
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
		out[i] = order.at(i)
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

// asRollouts is a configuration whose rollouts are as large as the pairs of a file: groups of two
// completions of the longest one's length, of prompts with the lengths returned.
func asRollouts(cfg config.Config, pairs []pairTokens) (config.Config, []int) {
	lengths, longest := make([]int, len(pairs)), 0
	for i, p := range pairs {
		lengths[i], longest = len(p.prompt), max(longest, len(p.chosen), len(p.rejected))
	}
	cfg.Rollout.GroupSize, cfg.Rollout.SamplingMaxTokens = 2, longest
	return cfg, lengths
}
