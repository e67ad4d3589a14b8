package rundir

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func TestRightEncoding(t *testing.T) {
	// Problems 0, 3 and 4 of 5, the first sample; none, the second.
	if got := RightOf([]bool{true, false, false, false, false, false, true, false, true, false}, 2); !slices.Equal(got, []string{"98", "00"}) {
		t.Errorf("%q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		problems, samples := rapid.IntRange(1, 40).Draw(t, "problems"), rapid.IntRange(1, 5).Draw(t, "samples")
		right := rapid.SliceOfN(rapid.Bool(), problems*samples, problems*samples).Draw(t, "right")
		e := Eval{Right: RightOf(right, samples), Samples: samples}
		e.Sampled.N = len(right)
		want := make([]float64, problems)
		for i, r := range right {
			if r {
				e.Sampled.CorrectNum++
				want[i/samples]++
			}
		}
		if err := e.checkRight(); err != nil {
			t.Fatal(err)
		}
		for i, share := range e.Shares(DecodingSampled) {
			if math.Abs(share-want[i]/float64(samples)) > 1e-12 {
				t.Fatalf("problem %d: %v of %d samples, want %v", i, share, samples, want[i])
			}
		}
	})
}

// Values that contradict the counts are errors with file and line; lines of earlier versions have none.
func TestRightIsChecked(t *testing.T) {
	line := func(right string) string {
		return `{"step":0,"split":"val","sampled":{"n":6,"correct_num":3,"error_num":3,"formatted_right":3,"formatted_wrong":3,` +
			`"unformatted":0,"truncated":0,"answer_reward":0.5,"format_reward":1,"completion_length":1,"completion_length_right":1,` +
			`"completion_length_wrong":1},"majority_answer":"1","majority_baseline":0.1` + right + "}\n"
	}
	const greedy = `{"n":6,"correct_num":2,"error_num":4,"formatted_right":2,"formatted_wrong":4,"unformatted":0,"truncated":0,` +
		`"answer_reward":0.3333333333333333,"format_reward":1,"completion_length":1,"completion_length_right":1,"completion_length_wrong":1}`
	for _, tt := range []struct{ right, want string }{
		{"", ""},
		{`,"right":[]`, ""},
		{`,"right":["a4"]`, ""},
		{`,"samples":2,"right":["a","2"]`, ""},
		{`,"right":["A4"]`, `right, sample 1: 'A' is not a lower-case hex digit`},
		{`,"right":["é"]`, "is not a lower-case hex digit"},
		{`,"right":["a"]`, "right, sample 1: 1 hex digits where 6 problems have 2"},
		{`,"right":["a40"]`, "3 hex digits where 6 problems have 2"},
		{`,"right":["a4","00"]`, "right has 2 strings; each problem has 1 sample"},
		{`,"right":["a1"]`, "it has a bit after the last of 6 problems"},
		{`,"right":["ac"]`, "right has 4 right completions, correct_num is 3"},
		{`,"right_greedy":["a0"]`, "right_greedy: there are no counts of greedy decoding"},
		{`,"right_greedy":["a0"],"greedy":` + greedy, ""},
		{`,"right_greedy":["a4"],"greedy":` + greedy, "right_greedy has 3 right completions, correct_num is 2"},
		{`,"right_greedy":["a0","00"],"greedy":` + greedy, "right_greedy has 2 strings; each problem has 1 sample"},
		{`,"samples":4`, "n 6 is not a multiple of samples 4"},
		{`,"samples":-1`, "not a multiple of samples -1"},
		{`,"right":"a4"`, "right"},
	} {
		dir := t.TempDir()
		expect.OK(t, os.WriteFile(filepath.Join(dir, EvalFile), []byte(line(tt.right)), 0o644))
		r, err := Open(dir)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.right, err)
		case tt.want == "":
			for decoding, key := range map[string]string{DecodingSampled: `"right":["`, DecodingGreedy: `"right_greedy":["`} {
				if shares := r.Evals[0].Shares(decoding); (shares == nil) != !strings.Contains(tt.right, key) {
					t.Errorf("%s: shares of %s decoding %v", tt.right, decoding, shares)
				}
			}
		case err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), EvalFile+": line 1"):
			t.Errorf("%s: %v, want %s", tt.right, err, tt.want)
		}
	}
}

// pass@k and maj@k that contradict the counts, or each other, are errors.
func TestAtKIsChecked(t *testing.T) {
	at := func(k int, mean float64) AtK { return AtK{k, mean, 0, 1} }
	for _, tt := range []struct {
		pass, majority []AtK
		want           string
	}{
		{nil, nil, ""},
		{[]AtK{at(1, 0.5), at(2, 2./3)}, []AtK{at(1, 0.5), at(2, 0.4)}, ""},
		{[]AtK{at(2, 2./3)}, nil, ""},
		{[]AtK{at(0, 0.5)}, nil, "pass_at, k = 0: it is not from 1 to samples, 2"},
		{nil, []AtK{at(3, 0.5)}, "majority_at, k = 3: it is not from 1 to samples, 2"},
		{[]AtK{at(2, 2./3), at(1, 0.5)}, nil, "pass_at, k = 1: it follows k = 2"},
		{[]AtK{at(1, 0.4)}, nil, "pass_at, k = 1: 0.4 contradicts answer_reward 0.5"},
		{nil, []AtK{at(1, 0.6)}, "majority_at, k = 1: 0.6 contradicts answer_reward 0.5"},
		{[]AtK{at(1, 0.5), at(2, 0.4)}, nil, "pass_at, k = 2: 0.4 is below that of k = 1, 0.5"},
		{[]AtK{at(2, 0.9)}, nil, "pass_at, k = 2: 0.9 contradicts right"},
		{[]AtK{{2, 0.6, 0.7, 1}}, nil, "is no share with an interval"},
		{[]AtK{{2, 0.6, 0, 1.1}}, nil, "is no share with an interval"},
	} {
		e := Eval{Samples: 2, PassAt: tt.pass, MajorityAt: tt.majority, Right: RightOf([]bool{true, true, true, false, false, false}, 2),
			Sampled: Counts{N: 6, CorrectNum: 3, ErrorNum: 3, FormattedRight: 3, FormattedWrong: 3, AnswerReward: 0.5, FormatReward: 1}}
		err := e.Check()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v, %v: %v, want %q", tt.pass, tt.majority, err, tt.want)
		}
	}
}
