package gsm8k

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

var (
	unformatted    = R1Verdict{}
	formattedWrong = R1Verdict{FormatReward: 1}
	formattedRight = R1Verdict{FormatReward: 1, AnswerReward: 1, Reward: 1}
)

type verdictCase struct {
	name, response string
	want           R1Verdict
}

func TestGradeR1Zero(t *testing.T) {
	checkVerdicts(t, GradeR1Zero, []verdictCase{
		{"right", "12*6 </think> <answer> 72 </answer>", formattedRight},
		{"wrong", "12*6 </think> <answer> 71 </answer>", formattedWrong},
		{"the prompt's tag repeated", "<think> 12*6 </think> <answer> 72 </answer>", formattedRight},
		{"the tags touch", "</think><answer>72</answer>", unformatted},
		{"two spaces", "</think>  <answer>72</answer>", unformatted},
		{"line break", "</think>\n<answer>72</answer>", unformatted},
		{"not closed", "</think> <answer>72", unformatted},
		{"closed before", "</answer> </think> <answer>72", formattedRight},
		{"text after", "</think> <answer>72</answer>, I think", formattedWrong},
		{"last of two", "</think> <answer>1</answer> <answer>72</answer>", formattedRight},
		{"upper case", "</THINK> <ANSWER>72</ANSWER>", unformatted},
		{"boxed", `</think> <answer>it is \boxed{72}.</answer>`, formattedRight},
		{"two boxes", `</think> <answer>\boxed{72} \boxed{1}</answer>`, formattedWrong},
		{"box not closed", `</think> <answer>\boxed{72</answer>`, formattedWrong},
		{"a stray brace is dropped", `\boxed{</think> <answer>72}</answer>`, formattedRight},
		{"answer too long", "</think> <answer>" + strings.Repeat("0", 2000) + "72</answer>", formattedWrong},
		{"long reasoning", strings.Repeat("so ", 100000) + "</think> <answer>72</answer>", formattedRight},
		{"GSM8K's form", "#### 72", unformatted},
		{"empty", "", unformatted},
	})
}

func TestGradeQuestionOnly(t *testing.T) {
	checkVerdicts(t, GradeQuestionOnly, []verdictCase{
		{"right", `so \boxed{72}.`, formattedRight},
		{"wrong", `so \boxed{71}.`, formattedWrong},
		{"last of two", `\boxed{71} \boxed{72}`, formattedRight},
		{"nested braces", `\boxed{\frac{144}{2}}`, formattedWrong},
		{"text", `\boxed{\text{72}}`, formattedRight},
		{"not closed", `\boxed{72`, unformatted},
		{"no box", "72", unformatted},
		{"GSM8K's form", "#### 72", unformatted},
	})
}

// checkVerdicts grades responses with the gold answer 72.
func checkVerdicts(t *testing.T, grade func(string, ...string) R1Verdict, cases []verdictCase) {
	for _, c := range cases {
		if got := grade(c.response, "72"); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestGradeAny(t *testing.T) {
	response := "</think> <answer>72</answer>"
	for _, c := range []struct {
		name  string
		golds []string
		want  R1Verdict
	}{
		{"first", []string{"72", "1"}, formattedRight},
		{"second", []string{"1", "72"}, formattedRight},
		{"none of two", []string{"1", "2"}, formattedWrong},
		{"none at all", nil, formattedWrong},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := GradeR1Zero(response, c.golds...); got != c.want {
				t.Errorf("r1_zero: got %+v, want %+v", got, c.want)
			}
			if got := GradeQuestionOnly(`\boxed{72}`, c.golds...); got != c.want {
				t.Errorf("question_only: got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestR1VerdictJSON(t *testing.T) {
	b, err := json.Marshal(formattedWrong)
	if want := `{"format_reward":1,"answer_reward":0,"reward":0}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v; want %s", b, err, want)
	}
}

func TestGoldAnswers(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
		err      string
	}{
		{"string", `"72"`, []string{"72"}, ""},
		{"integer", `72`, []string{"72"}, ""},
		{"decimal as written", `0.50`, []string{"0.50"}, ""},
		{"list", `["71", 72]`, []string{"71", "72"}, ""},
		{"empty list", `[]`, nil, "want a string, a number, or a list"},
		{"list in a list", `[["72"]]`, nil, "want a string"},
		{"null", `null`, nil, "want a string"},
		{"two values", `1 2`, nil, "want a string"},
		{"a bracket too many", `1]`, nil, "want a string"},
		{"no JSON", `"72`, nil, "read ground truth"},
		{"nothing", ``, nil, "read ground truth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := GoldAnswers(json.RawMessage(c.in))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want it to contain %q", err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}
