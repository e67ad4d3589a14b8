package gsm8k

import (
	"encoding/json"
	"reflect"
	"testing"

	"grpo/internal/expect"
)

func TestComputeStats(t *testing.T) {
	problems := []Problem{
		{Question: "abc", Answer: "#### 5", Gold: "5", Type: "sub"},
		{Question: "abc", Answer: "5.0=5\n#### 5.0", Gold: "5.0", Type: "add"},
		{Question: "d\u2028\u00e9\u00e9", Answer: "7=7\n#### 7", Gold: "7", Type: "add"},
		{Question: "", Answer: "x\t\n#### 1000", Gold: "1000"},
	}
	want := Stats{
		Problems:           4,
		Types:              []TypeCount{{"", 1}, {"add", 2}, {"sub", 1}},
		DuplicateQuestions: 1,
		QuestionLength:     Lengths{Min: 0, Median: 3, Mean: 2.5, Max: 4},
		AnswerLength:       Lengths{Min: 1, Median: 11, Mean: 9.25, Max: 14},
		DistinctAnswers:    3,
		TopAnswers:         []AnswerCount{{"5", 2, 0.5}, {"7", 1, 0.25}, {"1000", 1, 0.25}},
		MajorityAnswer:     "5", MajorityBaseline: 0.5,
		OutOfVocabulary:         []CharCount{{"\u00e9", "U+00E9", 2}, {"\t", "U+0009", 1}, {"\u2028", "U+2028", 1}},
		OutOfVocabularyProblems: 2,
	}
	if got := (Answers{}).ComputeStats(problems, inVocabulary); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := (Answers{}).ComputeStats(problems, nil); len(got.OutOfVocabulary) != 0 || got.OutOfVocabularyProblems != 0 {
		t.Errorf("without a vocabulary: %+v", got.OutOfVocabulary)
	}
}

func TestStatsOfNothing(t *testing.T) {
	b, err := json.Marshal((Answers{}).ComputeStats(nil, inVocabulary))
	if err != nil {
		t.Fatal(err) // a mean of nothing must not be NaN, which JSON lacks
	}
	var m map[string]any
	expect.OK(t, json.Unmarshal(b, &m))
	if m["problems"] != 0.0 || m["top_answers"] == nil || m["types"] == nil || m["out_of_vocabulary"] == nil {
		t.Errorf("stats of nothing: %s", b)
	}
}

func TestStatsTopAnswersAreTen(t *testing.T) {
	s := (Answers{}).ComputeStats(generate(t, defaults()).Val, inVocabulary)
	if len(s.TopAnswers) != 10 || s.DistinctAnswers <= 10 || s.TopAnswers[0].Answer != s.MajorityAnswer {
		t.Errorf("%d top answers of %d, majority %q", len(s.TopAnswers), s.DistinctAnswers, s.MajorityAnswer)
	}
	if len(s.OutOfVocabulary) != 0 {
		t.Errorf("generated problems leave the vocabulary: %+v", s.OutOfVocabulary)
	}
}

func TestMajorityAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		golds []string
		want  string
		share float64
	}{
		{"none", nil, "", 0},
		{"one", []string{"3"}, "3", 1},
		{"majority", []string{"1", "2", "2"}, "2", 2.0 / 3},
		{"spellings count together", []string{"1", "2.0", "2", "1.5"}, "2", 0.5},
		{"tie goes to the shorter", []string{"10", "9"}, "9", 0.5},
		{"tie goes to the first in byte order", []string{"8", "7"}, "7", 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ps []Problem
			for _, g := range c.golds {
				ps = append(ps, Problem{Gold: g})
			}
			if got, share := (Answers{}).Majority(ps); got != c.want || share != c.share {
				t.Errorf("got %q, %v; want %q, %v", got, share, c.want, c.share)
			}
		})
	}
}
