package explain

import (
	"encoding/json"
	"io"
	"slices"
	"testing"
)

// damaged are files that a parser likes to stumble over.
var damaged = []string{
	``, `null`, `{}`, `[[]]`, `{"inputs":null,"cases":[{}]}`, `{"inputs":{"mask":[[]]}}`, `{"inputs":{"mask":[[1]],"B":1e300}}`,
	`{"cases":[{"response":"\ud800","ground_truth":[]}]}`, `{"grpo":[{"rewards_per_func":[[null]],"num_generations":1}]}`,
	`{"grpo":[{"rewards_per_func":[[1e308],[-1e308]],"num_generations":2}]}`,
	`{"rloo":[{"rewards_per_func":[1,2],"num_generations":2,"beta":1}],"rloo_beta_inputs":{"mask":[[1]],"old_per_token_logps":[[1]],"ref_per_token_logps":[[1]]}}`,
	`{"inputs":{"mask":[[0,0]],"per_token_logps":[[null,null]],"advantages":[1]},"cases":[{"config":{"loss_type":"vespo"}}]}`,
	`{"inputs":{"mask":[[1]],"per_token_logps":[[1e308]],"old_per_token_logps":[[-1e308]],"advantages":[-1]},"cases":[{"config":{"loss_type":"grpo"}}]}`,
	lossFile,
}

func seed(f *testing.F, references ...string) {
	for _, s := range damaged {
		f.Add([]byte(s))
	}
	for _, name := range references {
		f.Add(reference(f, name))
	}
}

// Whatever a file holds, reading it ends in an error or in results that can be
// printed as a table and as JSON.
func FuzzLosses(f *testing.F) {
	seed(f, "trl_loss_cases.json", "verl_cases.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		cases, err := Losses("f.json", data)
		if err != nil {
			if len(cases) > 0 {
				t.Error("results beside an error")
			}
			return
		}
		if !json.Valid(data) || len(cases) == 0 {
			t.Error("no error")
		}
		for _, c := range cases {
			if len(slices.Concat(c.Result.Grad...)) == 0 {
				t.Error("no gradient")
			}
			asJSON(t, c.Result)
		}
		if err := WriteLosses(io.Discard, "f.json", cases); err != nil {
			t.Error(err)
		}
	})
}

func FuzzGroupedAdvantages(f *testing.F) {
	seed(f, "trl_advantage_cases.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		cases, err := GroupedAdvantages("f.json", data, TRLEps)
		if err != nil {
			return
		}
		for _, c := range cases {
			if n := len(c.Result.Advantages); n == 0 || n != len(c.Rewards) || n%c.GroupSize != 0 {
				t.Errorf("%d advantages for %d rewards in groups of %d", n, len(c.Rewards), c.GroupSize)
			}
			asJSON(t, c.Result)
		}
		if err := WriteAdvantages(io.Discard, "f.json", cases, TRLEps); err != nil {
			t.Error(err)
		}
	})
}

func FuzzRewards(f *testing.F) {
	seed(f)
	f.Add([]byte(`{"cases":[{"response":"a </think> <answer>\\frac{1}{2}</answer>","ground_truth":0.5,"fn":"r1_zero"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cases, err := Rewards("f.json", data)
		if err != nil {
			return
		}
		for _, c := range cases {
			if r := c.Result; r.Reward != r.AnswerReward || r.AnswerReward > r.FormatReward {
				t.Errorf("verdict %+v", r)
			}
		}
		if err := WriteRewards(io.Discard, "f.json", cases); err != nil {
			t.Error(err)
		}
	})
}
