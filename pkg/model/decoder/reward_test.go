package decoder

import (
	"math"
	"path/filepath"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rl"
)

// goldenReward is reward.json's part of whole models.
type goldenReward struct {
	Model []struct {
		Model string
		Pairs []struct {
			Chosen   []int `json:"chosen_ids"`
			Rejected []int `json:"rejected_ids"`
		}
		Margin          []float64
		Center          float64   `json:"center_rewards_coefficient"`
		RewardsChosen   []float64 `json:"rewards_chosen"`
		RewardsRejected []float64 `json:"rewards_rejected"`
		Loss            float64
		GradNorm        float64 `json:"grad_norm"`
		Grads           map[string]sparse
	}
}

// A reward model has the rewards, the loss and the gradients of TRL's RewardTrainer, though the
// prompt of a pair is computed once.
func TestGoldenRewardModel(t *testing.T) {
	root := golden.Path(t, "golden", "trl2")
	var file goldenReward
	golden.ReadJSON(t, filepath.Join(root, "reward.json"), &file, "losses", "metrics")
	if len(file.Model) == 0 {
		t.Fatal("no cases")
	}
	pool := kernel.NewPool(2)
	defer pool.Close()
	for _, c := range file.Model {
		weights, err := hf.OpenWeights(filepath.Join(root, c.Model))
		expect.OK(t, err)
		defer weights.Close()
		net, err := Load(weights)
		expect.OK(t, err)
		critic := trainCritic(net, net.Params, newCPU(pool), model.AdamWOptions{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, false)
		batch := &model.Batch{}
		for i, p := range c.Pairs {
			shared := model.SharedPrefix([][]int{p.Chosen, p.Rejected})
			batch.Prompts = append(batch.Prompts, p.Chosen[:shared])
			for _, ids := range [][]int{p.Chosen, p.Rejected} {
				row := append(append([]int{}, ids[shared:]...), 0) // the value after the last token, whatever follows it
				batch.Rows = append(batch.Rows, model.Row{Prompt: i, Tokens: row})
			}
		}
		within := func(name string, got, want, tol float64) {
			if !(math.Abs(got-want) <= tol) {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		loss, err := critic.Accumulate(batch, func(m *model.ValueMatrix) (float64, error) {
			b := rl.RewardPairs{Margins: c.Margin, Centering: c.Center}
			at := func(row int) int { return row*m.T + len(batch.Rows[row].Tokens) - 1 }
			for i := range c.Pairs {
				b.Chosen, b.Rejected = append(b.Chosen, m.Values[at(2*i)]), append(b.Rejected, m.Values[at(2*i+1)])
				within("a chosen reward", b.Chosen[i], c.RewardsChosen[i], 1e-4*max(1, math.Abs(c.RewardsChosen[i])))
				within("a rejected reward", b.Rejected[i], c.RewardsRejected[i], 1e-4*max(1, math.Abs(c.RewardsRejected[i])))
			}
			out, err := rl.BradleyTerry(b)
			for i := range out.GradChosen {
				m.DValues[at(2*i)], m.DValues[at(2*i+1)] = out.GradChosen[i], out.GradRejected[i]
			}
			return out.Loss, err
		})
		expect.OK(t, err)
		within("the loss", loss, c.Loss, 1e-4*max(1, c.Loss))
		var sum float64
		for _, g := range critic.Gradients.Tensors() {
			want, ok := c.Grads[g.Name]
			if !ok {
				t.Errorf("there is no gradient of %s", g.Name)
				continue
			}
			want.compare(t, g.Name, g.Data, 2e-4)
			sum += kernel.SumSquares(g.Data)
		}
		within("the gradient's norm", math.Sqrt(sum), c.GradNorm, 1e-4*c.GradNorm)
		if norm, err := critic.Step(0, 0); err != nil || math.Abs(norm-math.Sqrt(sum)) > 1e-4*norm {
			t.Errorf("the step's norm is %v, %v", norm, err)
		}
	}
}
