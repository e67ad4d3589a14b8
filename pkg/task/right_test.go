package task

import (
	"grpo/pkg/gsm8k"
	"grpo/pkg/rng"
)

// answersOf decides what is right, as in training.
func answersOf(t interface{ Fatal(...any) }, task *Task) gsm8k.Answers {
	a, err := gsm8k.NewAnswers(gsm8k.AnswerOptions{Kind: gsm8k.Kind(task.Answer)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func sequence(seed uint32) *rng.Sequence { return rng.New(1, rng.Corpus).Sequence(seed, 0, 0) }
