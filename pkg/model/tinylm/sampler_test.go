package tinylm_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
)

// A completion depends only on its prompt and its random numbers, not on other rows or the number
// of threads.
func TestSamplesDoNotDependOnBatchOrThreads(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(32, 2), 2)
	prompts := tinylmtest.Prompts(40, 15)
	all := tinylmtest.Sample(t, p, 1, prompts, 4, tinylmtest.Plain)
	for _, threads := range []int{2, 3, 5} {
		for i, x := range tinylmtest.Sample(t, p, threads, prompts, 4, tinylmtest.Plain) {
			if !slices.Equal(x.Tokens, all[i].Tokens) || !slices.Equal(x.LogProbs, all[i].LogProbs) {
				t.Fatalf("completion %d differs between 1 and %d threads", i, threads)
			}
		}
	}
	alone := tinylmtest.Sample(t, p, 1, prompts[:1], 4, tinylmtest.Plain)
	for i, x := range alone {
		if !slices.Equal(x.Tokens, all[i].Tokens) || !slices.Equal(x.LogProbs, all[i].LogProbs) {
			t.Fatalf("completion %d of the first prompt differs when the prompt is alone", i)
		}
	}
}

func TestSamplingOptions(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(16, 1), 3)
	prompts := tinylmtest.Prompts(6, 8)
	lengths := func(out []model.Completion) (short, long int) {
		short = math.MaxInt
		for _, x := range out {
			short, long = min(short, len(x.Tokens)), max(long, len(x.Tokens))
			ended := x.Tokens[len(x.Tokens)-1] == tokenizer.EOS
			if ended != x.Ended || slices.Contains(x.Tokens[:len(x.Tokens)-1], tokenizer.EOS) {
				t.Errorf("completion %v: Ended = %v", x.Tokens, x.Ended)
			}
		}
		return
	}
	t.Run("limits", func(t *testing.T) {
		opt := tinylmtest.Plain
		opt.MinTokens, opt.MaxTokens = 6, 9
		if short, long := lengths(tinylmtest.Sample(t, p, 1, prompts, 20, opt)); short < 6 || long != 9 {
			t.Errorf("lengths from %d to %d, want from 6 or more to 9", short, long)
		}
		if short, _ := lengths(tinylmtest.Sample(t, p, 1, prompts, 20, tinylmtest.Plain)); short >= 6 {
			t.Errorf("without a minimum the shortest completion has %d tokens: the case tests nothing", short)
		}
	})
	greedy := tinylmtest.Plain
	greedy.Greedy = true
	best := tinylmtest.Sample(t, p, 1, prompts, 1, greedy)
	for _, c := range []struct {
		name string
		opt  model.Sampling
	}{
		{"top-k 1", model.Sampling{Temperature: 1, TopP: 1, TopK: 1, MaxTokens: 20}},
		{"tiny top-p", model.Sampling{Temperature: 1, TopP: 1e-9, MaxTokens: 20}},
		{"tiny temperature", model.Sampling{Temperature: 1e-4, TopP: 1, MaxTokens: 20}},
	} {
		t.Run(c.name+" is greedy", func(t *testing.T) {
			for i, x := range tinylmtest.Sample(t, p, 1, prompts, 1, c.opt) {
				if !slices.Equal(x.Tokens, best[i].Tokens) {
					t.Errorf("prompt %d: %v, greedy %v", i, x.Tokens, best[i].Tokens)
				}
			}
		})
	}
	for _, c := range []model.Sampling{
		{Temperature: 0, TopP: 1, MaxTokens: 1}, {Temperature: math.NaN(), TopP: 1, MaxTokens: 1},
		{Temperature: 1, TopP: 0, MaxTokens: 1}, {Temperature: 1, TopP: 1.1, MaxTokens: 1}, {Temperature: 1, TopP: 1, TopK: -1, MaxTokens: 1},
		{Temperature: 1, TopP: 1}, {Temperature: 1, TopP: 1, MinTokens: 3, MaxTokens: 2},
	} {
		t.Run(fmt.Sprintf("refuses %+v", c), func(t *testing.T) {
			pool := tinylmtest.Pool(t, 1)
			if _, err := tinylm.NewSampler(p, pool).Sample(prompts, 1, c, tinylmtest.Draws(1)); err == nil {
				t.Error("no error")
			}
		})
	}
}

// A text that ends completions ends them earlier, with its last token, and changes nothing before.
func TestSamplerStops(t *testing.T) {
	p, prompts := tinylmtest.Weights(t, tinylmtest.Spec(16, 2), 3), tinylmtest.Prompts(3, 5)
	all := tinylmtest.Sample(t, p, 1, prompts, 20, tinylmtest.Plain)
	decode := tinylm.Tokenizer{}.Decode
	text := decode(all[0].Tokens[2:4])
	opt := tinylmtest.Plain
	opt.Stop = model.NewStop([]string{text}, decode)
	stopped := 0
	for i, x := range tinylmtest.Sample(t, p, 1, prompts, 20, opt) {
		want := all[i]
		for n := 1; n < len(want.Tokens); n++ {
			if strings.Contains(decode(want.Tokens[:n]), text) {
				want.Tokens, want.LogProbs, want.Ended = want.Tokens[:n], want.LogProbs[:n], true
				stopped++
			}
		}
		if !reflect.DeepEqual(x, want) {
			t.Errorf("completion %d: %v, want %v", i, x, want)
		}
	}
	if stopped == 0 || stopped == len(all) {
		t.Errorf("%d of %d completions stop", stopped, len(all))
	}
}

// The frequencies of first tokens match their probabilities.
func TestSamplerFollowsTheDistribution(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(16, 1), 4)
	const n = 20000
	opt := model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 1}
	counts, logp := map[int]int{}, map[int]float64{}
	for _, x := range tinylmtest.Sample(t, p, 2, tinylmtest.Prompts(1, 5), n, opt) {
		counts[x.Tokens[0]]++
		logp[x.Tokens[0]] = float64(x.LogProbs[0])
	}
	for id, k := range counts {
		q := math.Exp(logp[id])
		if d := math.Abs(float64(k) - n*q); d > 5*math.Sqrt(n*q*(1-q))+1 {
			t.Errorf("token %d came %d times of %d, its probability is %.5f", id, k, n, q)
		}
	}
}

// NaN or Inf weights must not hang or crash the sampler.
func TestSamplerSurvivesNaN(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(16, 1), 5)
	p.Layer[0].Whh[3] = float32(math.NaN())
	for _, x := range tinylmtest.Sample(t, p, 1, tinylmtest.Prompts(3, 4), 2, tinylmtest.Plain) {
		if len(x.Tokens) == 0 || len(x.Tokens) > tinylmtest.Plain.MaxTokens {
			t.Errorf("%d tokens", len(x.Tokens))
		}
	}
}
