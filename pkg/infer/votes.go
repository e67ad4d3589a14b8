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
	seen           int         // completions of the current problem
	given          answers     // by these
	pass, majority [][]float64 // for each k, the estimates of the problems
}

func newVotes(e Evaluation, group int) votes {
	v := votes{group: group, passAt: e.PassAt, majAt: e.Majority,
		pass: make([][]float64, len(e.PassAt)), majority: make([][]float64, len(e.Majority))}
	v.given = newAnswers()
	return v
}

// add counts a completion with its verdict. Completions without an answer do not vote.
func (v *votes) add(text string, ended bool, verdict gsm8k.Verdict) {
	if len(v.passAt)+len(v.majAt) == 0 {
		return
	}
	v.seen++
	v.given.add(text, ended, verdict)
	if v.seen < v.group {
		return
	}
	for i, k := range v.passAt {
		v.pass[i] = append(v.pass[i], stats.PassAt(v.group, v.given.correct(), k))
	}
	for i, share := range stats.MajorityAtEach(v.group, v.given.count, v.given.right, v.majAt) {
		v.majority[i] = append(v.majority[i], share)
	}
	v.seen, v.given = 0, newAnswers()
}

// answers counts the answers of the completions of one problem, in the order of their first.
type answers struct {
	index map[string]int
	count []int
	right int // index of the right answer; -1: nobody gave it
}

func newAnswers() answers { return answers{index: map[string]int{}, right: -1} }

// add counts a completion's answer, if it has one.
func (a *answers) add(text string, ended bool, verdict gsm8k.Verdict) {
	answer, ok := gsm8k.FinalAnswer(text, ended)
	if !ok {
		return
	}
	i, known := a.index[answer]
	if !known {
		i = len(a.count)
		a.index[answer], a.count = i, append(a.count, 0)
	}
	a.count[i]++
	if verdict.Right {
		a.right = i
	}
}

// correct is the number of right completions: all give the same number.
func (a *answers) correct() int {
	if a.right < 0 {
		return 0
	}
	return a.count[a.right]
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
