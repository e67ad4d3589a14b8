package infer

import (
	"math"
	"reflect"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rundir"
)

// Equal numbers are one vote; completions that were cut or have no answer do not vote.
func TestVotes(t *testing.T) {
	v := newVotes(Evaluation{PassAt: []int{1, 2, 4}, Majority: []int{1, 4}}, 4)
	add := func(text string, ended bool) { v.add(gsm8k.Answers{}.Grade(text, ended, gsm8k.Problem{Gold: "1000"})) }
	for _, text := range []string{"#### 1,000", "#### 1000.0", "#### 7", "no answer"} { // the right one wins
		add(text, true)
	}
	for _, text := range []string{"#### 1000", "#### 7", "#### 07", "#### 1000"} { // cut: it loses
		add(text, text != "#### 1000")
	}
	for _, text := range []string{"#### 1000", "#### 7", "a", "b"} { // a tie
		add(text, true)
	}
	pass, majority := v.estimates()
	means := func(at []rundir.AtK) (out []float64) {
		for _, x := range at {
			out = append(out, math.Round(x.Mean*1e6)/1e6)
		}
		return out
	}
	want := []float64{0.25, math.Round(1e6*(5./6+0+1./2)/3) / 1e6, math.Round(1e6*2/3.) / 1e6}
	if got := means(pass); !reflect.DeepEqual(got, want) {
		t.Errorf("pass@k %v, want %v", got, want)
	}
	if got, want := means(majority), []float64{0.25, 0.5}; !reflect.DeepEqual(got, want) {
		t.Errorf("maj@k %v, want %v", got, want)
	}
}

// More samples repeat those of fewer, in whatever batches they are sampled; what a split has follows from them.
func TestEvaluationWithSamples(t *testing.T) {
	evaluate := func(set ...string) []rundir.Eval {
		cfg := load("smoke", append([]string{"data.val_size=24", "unseen_size=3", "eval.greedy=false"}, set...)...)
		out, err := EvaluateCheckpoint(t.Context(), EvalOptions{Options: Options{Config: cfg, Threads: 2, Note: func(string) {}}})
		expect.OK(t, err)
		for _, e := range out.Evals {
			expect.OK(t, e.Check())
		}
		return out.Evals
	}
	few := evaluate("eval.samples=2", "eval.final_samples=4", "eval.pass_at=[2, 4]")
	many := evaluate("eval.samples=600") // 13 problems a batch
	for i, right := range few[0].Right {
		if right != many[0].Right[i] {
			t.Errorf("sample %d: %s, among more samples %s", i, right, many[0].Right[i])
		}
	}
	if v, u := few[0], few[1]; len(v.PassAt) != 2 || v.Samples != 4 || len(v.MajorityAt) != 2 || len(u.PassAt) != 1 ||
		u.Samples != 2 || len(u.MajorityAt) != 1 || len(many[1].PassAt) != 11 {
		t.Errorf("val %+v\nunseen %+v", v, u)
	}
	one := evaluate()
	if e := one[0]; e.PassAt != nil || e.MajorityAt != nil || e.Samples != 0 {
		t.Errorf("one completion: %+v", e)
	}
	if e := EvaluationOf(config.Default(), gsm8k.Template{}, 1); e.PassAt != nil || e.Majority != nil {
		t.Errorf("%+v", e)
	}
}
