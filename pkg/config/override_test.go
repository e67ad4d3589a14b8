package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"grpo/internal/expect"
)

func TestSet(t *testing.T) {
	tests := []struct{ name, set, key, want string }{
		{"full path", "train.learning_rate=3e-4", "train.learning_rate", "0.0003"},
		{"TRL's name", "num_iterations=3", "train.epochs_per_rollout_batch", "3"},
		{"TRL's name by its path", "train.num_iterations=3", "num_iterations", "3"},
		{"second spelling of a value", "loss_type=noclip", "algorithm.loss_type", "grpo_no_clip"},
		{"spaces around the key", " lr =3e-4", "train.learning_rate", "0.0003"},
		{"list with commas", "reward_weights=0.5", "reward.reward_weights", "[0.5]"},
		{"pair with commas", "adam_betas=0.8,0.9", "train.adam_betas", "[0.8, 0.9]"},
		{"pair in brackets", "adam_betas=[0.8, 0.9]", "train.adam_betas", "[0.8, 0.9]"},
		{"text with an equals sign", "name=lr=1", "name", `"lr=1"`},
		{"text that is a number elsewhere", "name=2025", "name", `"2025"`},
		{"elements in quotes", `data.stop=[ "\n\n", "a,b]",x]`, "data.stop", `["\n\n", "a,b]", x]`},
		{"one element in quotes", `data.stop="a,b"`, "data.stop", `["a,b"]`},
		{"negative zero", "weight_decay=-0", "train.weight_decay", "0"},
	}
	for _, test := range tests {
		r, err := Load(LoadOptions{Set: []string{test.set}})
		expect.OK(t, err)
		has(t, test.name, r, test.key, test.want)
	}
}

// TestNegativeZero: two spellings of one setting give the same bits.
func TestNegativeZero(t *testing.T) {
	r, err := Load(LoadOptions{Set: []string{"lr=-0.0"}})
	if err != nil || math.Signbit(r.Config.Train.LearningRate) {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestSetErrors(t *testing.T) {
	tests := []struct{ name, set, want string }{
		{"no equals sign", "learning_rate", `--set learning_rate: no "=" (write --set KEY=VALUE)`},
		{"empty", "", `--set "": no "="`},
		{"no key", "=1", `--set: unknown key ""`},
		{"unknown key", "lerning_rate=1", `--set: unknown key "lerning_rate" (did you mean "train.learning_rate"?)`},
		{"wrong section", "rollout.learning_rate=1", `(did you mean "train.learning_rate"?)`},
		{"capital letters", "Train.Learning_Rate=1", `(did you mean "train.learning_rate"?)`},
		{"TRL's name", "num_generations=4", `(did you mean "rollout.group_size"?)`},
		{"fraction for an integer", "group_size=8.5", `--set: rollout.group_size must be an integer, not 8.5`},
		{"nothing", "group_size=", `rollout.group_size must be an integer, not ""`},
		{"space", "group_size= 8", `must be an integer, not " 8"`},
		{"not finite", "lr=nan", `train.learning_rate must be a finite number, not nan`},
		{"empty list", "functions=", `reward.functions must be a list of strings, not "" (element 1 is empty; write a,b or [a, b])`},
		{"empty element", "functions=answer,", `(element 2 is empty`},
		{"open bracket", "functions=[answer", `(the bracket is not closed)`},
		{"number list", "reward_weights=1,x", `reward.reward_weights element 2 must be a number, not x`},
		{"unprintable", "name=a\x1b[31m", `must be one line of printable text: it contains the character U+001B`},
		{"several lines", "name=a\nb", `it contains the character U+000A`},
		{"unprintable in quotes", `data.stop="\x1b"`, `it contains the character U+001B`},
		{"not UTF-8", "name=\xff", `name must be UTF-8 text, not "\xff"`},
	}
	for _, test := range tests {
		_, err := Load(LoadOptions{Set: []string{test.set}})
		wantError(t, test.name, err, test.want)
	}
}

func TestEnv(t *testing.T) {
	tests := []struct{ name, env, want string }{ // want "": accepted
		{"another program's", "HOME=/home/x", ""},
		{"prefix of another program", "GRPOX=1", ""},
		{"kernel", "GRPO_KERNEL=avx2", ""},
		{"switch", "GRPO_NO_PROGRESS=1", ""},
		{"in a pod", "GRPO_JOB=lr-1a2b3c4d/0", ""},
		{"empty counts as not set", "GRPO_SEED=", ""},
		{"unknown and empty", "GRPO_UNKNOWN=", ""},
		{"key of grpo sft", "GRPO_EVAL_SIZE=abc", ""},
		{"stage of grpo sft", "GRPO_STAGES_1_STEPS=5", ""},
		{"second name, out of range", "GRPO_TRAIN_NUM_ITERATIONS=0", `train.epochs_per_rollout_batch (0, GRPO_TRAIN_NUM_ITERATIONS) must be at least 1`},
		{"unknown", "GRPO_TRAIN_LERNING_RATE=1", `environment: unknown variable GRPO_TRAIN_LERNING_RATE (did you mean "GRPO_TRAIN_LEARNING_RATE"?)`},
		{"last part only", "GRPO_LEARNING_RATE=1", `environment: unknown variable GRPO_LEARNING_RATE (did you mean "GRPO_TRAIN_LEARNING_RATE"?)`},
		{"wrong type", "GRPO_ROLLOUT_GROUP_SIZE=8.5", `environment: GRPO_ROLLOUT_GROUP_SIZE: rollout.group_size must be an integer, not 8.5`},
		{"out of range", "GRPO_ROLLOUT_GROUP_SIZE=0", `rollout.group_size (0, GRPO_ROLLOUT_GROUP_SIZE) must be at least 1`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := Load(LoadOptions{Env: []string{test.env}})
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want == "" && !reflect.DeepEqual(r.Config, Resolve(Default())):
				t.Errorf("it changes the configuration to %+v", r.Config)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestEnvIsPassedIn: the process's own environment has no effect.
func TestEnvIsPassedIn(t *testing.T) {
	t.Setenv("GRPO_SEED", "7")
	t.Setenv("SEED", "7")
	if r, err := Load(LoadOptions{}); err != nil || r.Config.Seed != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestFlags(t *testing.T) {
	_, err := Load(LoadOptions{Flags: []Flag{{Key: "seed", Name: "--seed", Value: "x"}, {Key: "train.lr", Name: "--rate", Value: "1"}}})
	wantError(t, "flags", err, "--seed: seed must be an integer of 0 or more, not x", `--rate: sets the unknown key "train.lr"`)
}

// TestInvalid: the message is unchanged, and the error wraps ErrConfig unless the machine is the
// cause.
func TestInvalid(t *testing.T) {
	missing := fmt.Errorf("read a.jsonl: %w", fs.ErrNotExist)
	if err := Invalid(missing); !errors.Is(err, ErrConfig) || !errors.Is(err, fs.ErrNotExist) || err.Error() != missing.Error() {
		t.Errorf("%v", err)
	}
	if Invalid(nil) != nil {
		t.Error("an error of nothing")
	}
	limit := fmt.Errorf("read a.jsonl: %w", &fs.PathError{Op: "open", Path: "a.jsonl", Err: syscall.EMFILE})
	if err := Invalid(limit); errors.Is(err, ErrConfig) || err != limit {
		t.Errorf("%v", err)
	}
	if !Outside(&Error{Doing: "load config", Problems: []string{"x"}, Cause: syscall.EMFILE}) || Outside(missing) {
		t.Error("what is outside")
	}
}
