package task

import (
	"reflect"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/gsm8k"
)

// TestCorpora: the examples of the first stage are right; those of the second have each style, as many right ones as
// the mixture says, and wrong ones.
func TestCorpora(t *testing.T) {
	for _, task := range tasks {
		s, err := task.Generate(Options{Seed: 1, Difficulty: task.Default, MinDifficulty: max(task.Min, task.Default-1), SFTSize: 1000, TrainSize: 1,
			Arithmetic: gsm8k.GenOptions{WeightAdd: 1, WeightSub: 1, WeightMul: 1}})
		expect.OK(t, err)
		o := CorpusOptions{MaxChars: 40, Answers: answersOf(t, task)}
		for _, e := range task.CapabilityCorpus(s.SFT, 500, 1, o) {
			if !e.Right || !e.Ended {
				t.Fatalf("%s: %+v", task.Name, e)
			}
		}
		corpus := task.PreferenceCorpus(s.SFT, 4000, 1, o)
		if again := task.PreferenceCorpus(s.SFT, 4000, 1, o); !reflect.DeepEqual(corpus, again) {
			t.Errorf("%s: another corpus", task.Name)
		}
		styles, rightIn, total := map[string]int{}, map[string]int{}, 0
		for _, e := range corpus {
			styles[e.Style]++
			if e.Right {
				rightIn[e.Style]++
				total++
			}
			if !e.Ended && len(e.Completion) != 40 {
				t.Fatalf("%s: %+v", task.Name, e)
			}
		}
		for _, m := range mixture {
			n, right := styles[m.Style], rightIn[m.Style]
			switch m.Style {
			case styleWorked:
				if right != n {
					t.Errorf("%s: %d of %d %s are right", task.Name, right, n, m.Style)
				}
			case gsm8k.StyleGuess, styleWrong: // a guess of a bit is right in half of the cases
			default:
				if right > 0 {
					t.Errorf("%s: %d of %d %s are right", task.Name, right, n, m.Style)
				}
			}
			if n < 100 {
				t.Errorf("%s: %d examples of style %s", task.Name, n, m.Style)
			}
		}
		if wrong := rightIn[styleWrong]; wrong > styles[styleWrong]/4 {
			t.Errorf("%s: %d of %d wrong ones are right", task.Name, wrong, styles[styleWrong])
		}
		if share := float64(total) / 4000; share < 0.2 || share > 0.45 {
			t.Errorf("%s: a share of %g is right", task.Name, share)
		}
		if c := task.PreferenceCorpus(nil, 5, 1, o); c != nil {
			t.Errorf("%s: %d examples of no problems", task.Name, len(c))
		}
	}
}

func TestWrongValue(t *testing.T) {
	p := gsm8k.Problem{Answer: "7+5=<<7+5=12>>12\n#### 12", Gold: "12"}
	chain := gsm8k.Problem{Answer: "7+5=12\n12+12=24\n24-12=12\n#### 12", Gold: "12"}
	for seed := range uint32(20) {
		for _, p := range []gsm8k.Problem{p, chain} {
			got := wrongValue(p, sequence(seed))
			work, value, _ := strings.Cut(got, "\n#### ")
			if value == "12" || !strings.HasSuffix(work, "="+value) && !strings.HasSuffix(work, "="+value+">>"+value) ||
				strings.Count(work, "\n") != strings.Count(p.Answer, "\n")-1 || !strings.HasPrefix(work, "7+5=") {
				t.Errorf("%q", got)
			}
		}
	}
}
