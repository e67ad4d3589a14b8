// Command arm64test compares two runs: every number of their metrics, evaluations and samples, times
// apart, and their weights. With -model it writes a small Llama network. See the script arm64-test.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"grpo/internal/randommodel"
	"grpo/pkg/rundir"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: arm64test RUN RUN, or arm64test -model FOLDER")
		os.Exit(2)
	}
	if os.Args[1] == "-model" {
		if err := writeModel(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "arm64test:", err)
			os.Exit(1)
		}
		return
	}
	if err := compare(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "arm64test: %s and %s differ: %v\n", os.Args[1], os.Args[2], err)
		os.Exit(1)
	}
}

// writeModel writes a network whose sizes are whole vectors and rests.
func writeModel(dir string) error {
	config := map[string]any{
		"model_type": "llama", "vocab_size": randommodel.Tokens, "hidden_size": 72, "intermediate_size": 100,
		"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20,
		"max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true,
		"eos_token_id": randommodel.End, "rope_theta": 10000,
	}
	r := rand.New(rand.NewPCG(1, 2))
	return randommodel.Write(dir, config, "F32", func(_ int, name string, x []float32) {
		for i := range x {
			if x[i] = 1; !strings.Contains(name, "norm") {
				x[i] = r.Float32() - 0.5
			}
		}
	})
}

func compare(first, second string) error {
	a, err := rundir.Open(first)
	if err != nil {
		return err
	}
	b, err := rundir.Open(second)
	if err != nil {
		return err
	}
	err = errors.Join(rundir.CompareMetrics(a.Metrics, b.Metrics), rundir.CompareEvals(a.Evals, b.Evals),
		rundir.CompareSamples(a.Samples, b.Samples))
	switch {
	case len(a.Metrics) == 0 || a.Result == nil || b.Result == nil:
		err = errors.Join(err, errors.New("a run has no result"))
	case a.Result.WeightsSHA256 != b.Result.WeightsSHA256:
		err = errors.Join(err, fmt.Errorf("weights %s and %s", a.Result.WeightsSHA256, b.Result.WeightsSHA256))
	default:
		fmt.Printf("%d steps and weights %.8s are the same\n", len(a.Metrics), a.Result.WeightsSHA256)
	}
	return err
}
