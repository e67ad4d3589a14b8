package infer

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/policy"
	"grpo/pkg/preference"
	"grpo/pkg/rl"
)

func madePairs(t *testing.T, o PairOptions, set ...string) ([]preference.Pair, *PairsMade) {
	t.Helper()
	o.Config = must(config.Load(config.LoadOptions{Set: set, Checkpoint: policy.FindCheckpoint})).Config
	o.Note, o.Split = func(string) {}, "train"
	pairs, made, err := MakePairs(context.Background(), o)
	expect.OK(t, err)
	if sum := made.Paired + made.AllRight + made.AllWrong + made.Unscored + made.OnlyDropped; sum != made.Groups || made.Pairs != len(pairs) {
		t.Errorf("%d groups counted of %d, %d pairs of %d", sum, made.Groups, made.Pairs, len(pairs))
	}
	return pairs, made
}

// The first groups do not depend on their number, the threads or the batches; the pairs are right
// completions and wrong ones.
func TestMakePairs(t *testing.T) {
	rule := rl.PairOptions{Rule: rl.PairRightWrong}
	pairs, made := madePairs(t, PairOptions{Options: Options{Threads: 2}, Groups: 12, Pairs: rule})
	if len(pairs) < 8 || *made.Margin != 1 || made.Retokenized != 0 || made.Dropped != 0 {
		t.Errorf("%+v", made)
	}
	for _, p := range pairs {
		if !strings.Contains(p.Chosen.Plain, "#### ") || p.ChosenTruncated || *p.Margin != 1 {
			t.Errorf("%+v", p)
		}
	}
	again, _ := madePairs(t, PairOptions{Options: Options{Threads: 1}, Groups: 5, Pairs: rule}, "rollout.rollout_batch_size=16")
	if len(again) == 0 || !reflect.DeepEqual(again, pairs[:len(again)]) {
		t.Errorf("%d pairs of 5 groups are not the first of 12", len(again))
	}
	one, few := madePairs(t, PairOptions{Options: Options{Threads: 1}, Groups: 12, Pairs: rl.PairOptions{Rule: rl.PairLengthControlled, PerGroup: 1}})
	if len(one) != made.Paired || few.Weights != made.Weights {
		t.Errorf("%d pairs of %d groups, at most one each", len(one), made.Paired)
	}
}

// A decoder's chat prompts are written as text with their special tokens, and read back as sampled.
func TestMakePairsOfADecoder(t *testing.T) {
	dir := decodertest.Folder(t)
	set := []string{"model.init=" + dir, "prompt_template=chat", "sampling_max_tokens=4", "reward.functions=random", "train_size=4", "val_size=2",
		"test_size=2", "unseen_size=2"}
	pairs, made := madePairs(t, PairOptions{Options: Options{Threads: 1}, Groups: 6, Pairs: rl.PairOptions{Rule: rl.PairBestWorst}}, set...)
	if len(pairs) == 0 || made.RejectedTruncated == 0 {
		t.Fatalf("%+v", made)
	}
	for _, p := range pairs {
		if !strings.HasPrefix(p.Prompt.Plain, "<|start|>user: ") || !strings.HasSuffix(p.Prompt.Plain, "<|end|><|start|>") {
			t.Errorf("the prompt is %q", p.Prompt.Plain)
		}
	}
	cfg := must(config.Load(config.LoadOptions{Set: set, Checkpoint: policy.FindCheckpoint})).Config
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, _, err := MakePairs(ctx, PairOptions{Options: Options{Config: cfg}, Split: "train", Pairs: rl.PairOptions{Rule: rl.PairBestWorst}}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
