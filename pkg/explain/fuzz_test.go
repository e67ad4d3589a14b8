package explain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"grpo/internal/untrusted"
)

// fuzzLimit is the maximum cost of a batch: the cases of a file share its inputs, so the work is
// proportional to cases times tokens, which maxNumbers bounds.
var fuzzLimit = untrusted.Limit{Base: 1 << 30, PerByte: 64 << 10, Time: untrusted.Reader.Time}

// damaged are files that often break parsers.
var damaged = []string{
	``, `null`, `{}`, `[[]]`, `{"inputs":null,"cases":[{}]}`, `{"inputs":{"mask":[[]]}}`, `{"inputs":{"mask":[[1]],"B":1e300}}`,
	`{"cases":[{"response":"\ud800","ground_truth":[]}]}`, `{"grpo":[{"rewards_per_func":[[null]],"num_generations":1}]}`,
	`{"grpo":[{"rewards_per_func":[[1e308],[-1e308]],"num_generations":2}]}`,
	`{"rloo":[{"rewards_per_func":[1,2],"num_generations":2,"beta":1}],"rloo_beta_inputs":{"mask":[[1]],"old_per_token_logps":[[1]],"ref_per_token_logps":[[1]]}}`,
	`{"inputs":{"mask":[[0,0]],"per_token_logps":[[null,null]],"advantages":[1]},"cases":[{"config":{"loss_type":"vespo"}}]}`,
	`{"inputs":{"mask":[[1]],"per_token_logps":[[1e308]],"old_per_token_logps":[[-1e308]],"advantages":[-1]},"cases":[{"config":{"loss_type":"grpo"}}]}`,
	`{"\u001b[31m":1}`, `{"inputs":{"\u202e":[1]},"cases":[{"\u001b":1}]}`, `{"cases":[{"response":"\u001b[31m","ground_truth":["\u001b"],"fn":"\u001b[31m"}]}`,
	`{"inputs":{"mask":[[1]],"per_token_logps":[[-1]],"advantages":[1]},"cases":[{"config":{"loss_type":"grpo"},"metrics":{"\u001b[31m":1}}]}`,
	"{\n\n\"a\":\x1b}", strings.Repeat(`{"cases":[`, 40), strings.Repeat("[", 11000), "\xff", "{\"a\":\"\xff\"}",
	lossExample,
	`{"calls":[]}`, `{"calls":[{}]}`, `{"calls":[{"function":"masked_mean","tensor":[[]],"mask":[[]]}]}`,
	`{"calls":[{"function":"masked_mean","tensor":[[1,2],[3,null]],"mask":[[1,1],[true,0]],"dim":-1,"result":[1,2]}]}`,
	`{"calls":[{"function":"masked_normalize","tensor":1,"mask":1,"result":[[[1]]],"constant_normalizer":1e-300}]}`,
	`{"calls":[{"function":"compute_entropy","logits":[[1,2],[1e308,-1e308]],"result":[0,null]}]}`,
	`{"calls":[{"function":"compute_group_normalized_rewards","raw_rewards":[[1],[0]],"group_size":2,"advantages":[1,-1]}]}`,
	`{"calls":[{"function":"grpo_microbatch_train_step","policy_log_probs":[[-1,-2]],"old_log_probs":[[-1,-3]],"response_mask":[[1,0]],` +
		`"loss_type":"grpo_clip","cliprange":0.2,"advantages":[[1]],"gradient_accumulation_steps":2,"loss":1,"policy_log_probs_grad":[[0,0]]}]}`,
	`{"calls":[{"function":"grpo_train_step","policy_log_probs":[[-1,-2],[-1,null]],"old_log_probs":[[-1,-3],[-1,null]],"response_mask":[[1,1],[1,0]],` +
		`"raw_rewards":[1,0],"group_size":2,"importance_reweighting_method":"gspo","cliprange":0.2,"loss_normalization":"constant","normalization_constant":4,"loss":0}]}`,
	`{"calls":[{"function":"[31m"},` + strings.Repeat("[", 20) + `]}`, `{"calls":[{"function":"masked_mean","tensor":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}]}`,
}

func seed(f *testing.F, references ...string) {
	for _, s := range damaged {
		f.Add([]byte(s))
	}
	for _, name := range references {
		f.Add(reference(f, name))
	}
}

// checkBatch reads a file: it returns a printable error, or a batch with a printable table, of a size in proportion
// to the file.
func checkBatch(t *testing.T, data []byte, read func(File) (Batch, error), check func(Batch)) {
	t.Helper()
	fuzzLimit.Check(t, len(data), func() {
		b, err := read(File{"f.json", data})
		if err != nil {
			untrusted.CheckError(t, err)
			if !strings.Contains(err.Error(), "f.json") {
				t.Fatalf("the error does not name the file: %v", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q is not JSON", data)
		}
		if len(b.checks) == 0 {
			t.Error("no cases and no error")
		}
		check(b)
		asJSON(t, b.Cases)
		untrusted.CheckText(t, textOf(t, b))
	})
}

// Any file gives an error, or results that can be printed as a table and as JSON.
func FuzzLosses(f *testing.F) {
	seed(f, "trl_loss_cases.json", "verl_cases.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		checkBatch(t, data, Losses, func(b Batch) {
			cases, _ := b.Cases.([]LossCase) // or calls
			for _, c := range cases {
				if len(slices.Concat(c.Grad...)) == 0 {
					t.Error("no gradient")
				}
			}
		})
	})
}

func FuzzGroupedAdvantages(f *testing.F) {
	seed(f, "trl_advantage_cases.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(f File) (Batch, error) { return GroupedAdvantages(f, TRLEps) }
		checkBatch(t, data, read, func(b Batch) {
			cases, _ := b.Cases.([]AdvantageCase) // or calls
			for _, c := range cases {
				if n := len(c.Advantages); n == 0 || n != len(c.Rewards) || n%c.GroupSize != 0 {
					t.Errorf("%d advantages for %d rewards in groups of %d", n, len(c.Rewards), c.GroupSize)
				}
			}
		})
	})
}

func FuzzRewards(f *testing.F) {
	seed(f)
	f.Add([]byte(`{"cases":[{"response":"a </think> <answer>\\frac{1}{2}</answer>","ground_truth":0.5,"fn":"r1_zero"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkBatch(t, data, Rewards, func(b Batch) {
			for _, r := range b.Cases.([]RewardCase) {
				if r.Reward != r.AnswerReward || r.AnswerReward > r.FormatReward {
					t.Errorf("verdict %+v", r)
				}
			}
		})
	})
}
