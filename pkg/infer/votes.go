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
	seen           int     // completions of the current problem
	given          answers // by these
	of             gsm8k.Answers
	pass, majority [][]float64 // for each k, the estimates of the problems
}

func newVotes(e Evaluation, group int) votes {
	v := votes{group: group, of: e.Answers, passAt: e.PassAt, majAt: e.Majority,
		pass: make([][]float64, len(e.PassAt)), majority: make([][]float64, len(e.Majority))}
	if !v.of.HasVotes() {
		v.majAt, v.majority = nil, nil
	}
	v.given = newAnswers(v.of)
	return v
}

// add counts a completion with its verdict. Completions without an answer do not vote.
func (v *votes) add(verdict gsm8k.Verdict) {
	if len(v.passAt)+len(v.majAt) == 0 {
		return
	}
	v.seen++
	v.given.add(verdict)
	if v.seen < v.group {
		return
	}
	for i, k := range v.passAt {
		v.pass[i] = append(v.pass[i], stats.PassAt(v.group, v.given.correct(), k))
	}
	for i, share := range stats.MajorityAtEach(v.group, v.given.count, v.given.right, v.majAt) {
		v.majority[i] = append(v.majority[i], share)
	}
	v.seen, v.given = 0, newAnswers(v.of)
}

// answers counts the answers of the completions of one problem, in the order of their first. Right answers count as
// one.
type answers struct {
	of    gsm8k.Answers
	index map[string]int // of the wrong ones
	count []int
	right int // index of the right answer; -1: nobody gave it
}

func newAnswers(of gsm8k.Answers) answers { return answers{of: of, index: map[string]int{}, right: -1} }

// add counts a completion's answer, if it has one.
func (a *answers) add(v gsm8k.Verdict) {
	if !v.Formatted {
		return
	}
	i := a.right
	if !v.Right {
		i = a.wrong(v.Answer)
	}
	if i < 0 {
		i = len(a.count)
		a.count = append(a.count, 0)
	}
	if a.count[i]++; v.Right {
		a.right = i
	} else {
		a.index[v.Answer] = i
	}
}

// wrong is the index of a wrong answer; -1 if it is new.
func (a *answers) wrong(answer string) int {
	if i, known := a.index[answer]; known {
		return i
	}
	found := -1
	if a.of.Kind() == gsm8k.KindMath {
		for other, i := range a.index { // the least index, in whatever order
			if (found < 0 || i < found) && a.of.Same(answer, other) {
				found = i
			}
		}
	}
	return found
}

// correct is the number of right completions.
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
