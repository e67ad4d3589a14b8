package infer

import (
	"grpo/pkg/gsm8k"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// votes are the answers of the completions of each problem, from which pass@k and maj@k follow. The completions of a
// problem come one after the other.
type votes struct {
	group          int // completions of a problem
	passAt, majAt  []int
	seen           int            // completions of the current problem
	answers        map[string]int // index of each answer of the current problem
	count          []int          // votes for each
	right, correct int            // index of the right answer, -1 without one; completions that are right
	pass, majority [][]float64    // for each k, the estimates of the problems
}

func newVotes(e Evaluation, group int) votes {
	v := votes{group: group, passAt: e.PassAt, majAt: e.Majority,
		pass: make([][]float64, len(e.PassAt)), majority: make([][]float64, len(e.Majority))}
	v.next()
	return v
}

func (v *votes) next() {
	v.seen, v.answers, v.count, v.right, v.correct = 0, map[string]int{}, nil, -1, 0
}

// add counts a completion with its verdict. Completions without an answer do not vote.
func (v *votes) add(text string, ended bool, verdict gsm8k.Verdict) {
	if len(v.passAt)+len(v.majAt) == 0 {
		return
	}
	v.seen++
	if answer, ok := gsm8k.FinalAnswer(text, ended); ok {
		i, known := v.answers[answer]
		if !known {
			i = len(v.count)
			v.answers[answer], v.count = i, append(v.count, 0)
		}
		v.count[i]++
		if verdict.Right {
			v.right = i
			v.correct++
		}
	}
	if v.seen < v.group {
		return
	}
	for i, k := range v.passAt {
		v.pass[i] = append(v.pass[i], stats.PassAt(v.group, v.correct, k))
	}
	for i, share := range stats.MajorityAtEach(v.group, v.count, v.right, v.majAt) {
		v.majority[i] = append(v.majority[i], share)
	}
	v.next()
}

// estimates are pass@k and maj@k over the problems, none without problems.
func (v *votes) estimates() (passAt, majorityAt []rundir.AtK) {
	over := func(ks []int, estimates [][]float64) (out []rundir.AtK) {
		for i, k := range ks {
			if len(estimates[i]) > 0 {
				mean, lo, hi := stats.OverProblems(estimates[i])
				out = append(out, rundir.AtK{K: k, Mean: mean, Lo: lo, Hi: hi})
			}
		}
		return out
	}
	return over(v.passAt, v.pass), over(v.majAt, v.majority)
}
