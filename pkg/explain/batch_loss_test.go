package explain

import (
	"strings"
	"testing"

	"grpo/internal/expect"
)

// lossExample is a small batch of two completions by two tokens. An edit replaces a
// part of it.
const lossExample = `{
	"_source": "a remark",
	"inputs": {
		"mask": [[1, 1], [1, 0]],
		"per_token_logps": [[-1, -2], [-1, -3]],
		"old_per_token_logps": [[-1, -2.1], [-1.2, null]],
		"advantages": [1, -1]
	},
	"cases": [
		{"config": {"loss_type": "grpo"}},
		{"config": {"loss_type": "dapo", "epsilon_high": 0.28}}
	]
}`

func TestLossesOfASmallFile(t *testing.T) {
	cases, err := losses(File{"f.json", []byte(lossExample)})
	expect.OK(t, err)
	if len(cases) != 2 || cases[0].Check.Values != 0 || cases[1].Name != "dapo, epsilon_high 0.28" {
		t.Fatalf("cases %+v", cases)
	}
	for _, tt := range []struct{ name, old, new string }{
		{"token-level advantages", `[1, -1]`, `[[1, 1], [-1, null]]`},
		{"a boolean mask", `[[1, 1], [1, 0]]`, `[[true, true], [true, false]]`},
		{"B and T", `"mask"`, `"B": 2, "T": 2.0, "mask"`},
		{"entropies that are not needed", `"mask"`, `"entropies": [[1, 1], [1, 1]], "mask"`},
		{"a missing null", `"mask"`, `"ref_per_token_logps": null, "mask"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := losses(File{"f.json", edit(t, lossExample, tt.old, tt.new)})
			expect.OK(t, err)
			for i := range got {
				same(t, "loss", []float64{got[i].Loss}, []float64{cases[i].Loss})
			}
		})
	}
}

// A case that leaves the bias correction out has it, as in TRL since 1.10; without a KL term its label
// does not name it.
func TestBiasCorrectionIsTheDefault(t *testing.T) {
	var got []LossCase
	for _, set := range []string{``, `, "use_bias_correction_kl": true`, `, "use_bias_correction_kl": false`} {
		data := edit(t, lossExample, `"mask"`, `"ref_per_token_logps": [[-1.5, -2], [-1, -3]], "mask"`)
		data = edit(t, string(data), `"grpo"}`, `"grpo", "beta": 0.5`+set+`}`)
		c, err := losses(File{"f.json", data})
		expect.OK(t, err)
		got = append(got, c[0])
	}
	same(t, "gradient", got[0].Grad[0], got[1].Grad[0])
	if got[0].Grad[0][0] == got[2].Grad[0][0] {
		t.Errorf("the correction does not change the gradient %v", got[0].Grad)
	}
	c, err := losses(File{"f.json", edit(t, lossExample, `"grpo"}`, `"grpo", "use_bias_correction_kl": false}`)})
	expect.OK(t, err)
	if c[0].Name != "grpo" {
		t.Errorf("label %q", c[0].Name)
	}
}

// A formula takes the place of the loss of loss_type, with the same bounds and aggregation.
func TestFormulaCases(t *testing.T) {
	b, err := Losses(File{"f.json", edit(t, lossExample, `"epsilon_high": 0.28}}`,
		`"epsilon_high": 0.28}}, {"config": {"loss_type": "dapo", "epsilon_high": 0.28, "loss_expr": "-min(ratio*A, clip(ratio, 1-eps, 1+eps_high)*A)"}}`)})
	expect.OK(t, err)
	cases := b.Cases.([]LossCase)
	same(t, "loss", []float64{cases[2].Loss}, []float64{cases[1].Loss})
	same(t, "gradient", cases[2].Grad[0], cases[1].Grad[0])
	if _, ok := cases[2].Metrics["clip_ratio/region_mean"]; ok {
		t.Error("a formula has a clip fraction")
	}
}

// Without old log-probabilities, and with on_policy, the ratio is 1.
func TestOnPolicyCases(t *testing.T) {
	for _, tt := range []struct{ name, old, new string }{
		{"no old log-probabilities", `"old_per_token_logps": [[-1, -2.1], [-1.2, null]],`, ``},
		{"on_policy", `"loss_type": "grpo"`, `"loss_type": "grpo", "on_policy": true`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Losses(File{"f.json", edit(t, lossExample, tt.old, tt.new)})
			expect.OK(t, err)
			c := b.Cases.([]LossCase)[0]
			if !c.OnPolicy || c.Metrics["clip_ratio/region_mean"] != 0 {
				t.Errorf("on-policy %v, metrics %v", c.OnPolicy, c.Metrics)
			}
			same(t, "loss and gradient", []float64{c.Loss, c.Grad[0][0], c.Grad[1][0]}, []float64{0, -0.25, 0.5})
			textHas(t, textOf(t, b), "0 grpo on-policy", "n/a n/a n/a", "On-policy the ratio is 1")
		})
	}
}

// The parameters of sapo and vespo reach the loss: explicit defaults give the same loss, other
// values a different one.
func TestCurveParameters(t *testing.T) {
	loss := func(config string) float64 {
		t.Helper()
		cases, err := losses(File{"f.json", edit(t, lossExample, `"loss_type": "grpo"`, config)})
		expect.OK(t, err)
		return cases[0].Loss
	}
	for _, tt := range []struct {
		name, base, same string
		other            []string
	}{
		{"sapo", `"loss_type": "sapo"`, `, "sapo_temperature_pos": 1, "sapo_temperature_neg": 1.05`,
			[]string{`, "sapo_temperature_pos": 2`, `, "sapo_temperature_neg": 2`}},
		{"vespo", `"loss_type": "vespo"`, `, "vespo_k_pos": 2, "vespo_lambda_pos": 3, "vespo_k_neg": 3, "vespo_lambda_neg": 2`,
			[]string{`, "vespo_k_pos": 4`, `, "vespo_lambda_pos": 5`, `, "vespo_k_neg": 4`, `, "vespo_lambda_neg": 5`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := loss(tt.base)
			if got := loss(tt.base + tt.same); got != want {
				t.Errorf("the defaults give %v, want %v", got, want)
			}
			seen := map[float64]string{want: "the defaults"}
			for _, o := range tt.other {
				got := loss(tt.base + o)
				if before := seen[got]; before != "" {
					t.Errorf("%s gives the same loss as %s", o, before)
				}
				seen[got] = o
			}
		})
	}
}

func edit(t *testing.T, file, old, replacement string) []byte {
	t.Helper()
	if !strings.Contains(file, old) {
		t.Fatalf("the file has no %q", old)
	}
	return []byte(strings.Replace(file, old, replacement, 1))
}
