package config

import (
	"errors"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rl"
)

// TestStrict: documents that YAML or viper would silently accept, drop or convert, and the message
// for each. FILE is replaced by the path.
func TestStrict(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		// Keys.
		{"unknown key", "rollout:\n  grup_size: 8\n", `load config: FILE: line 2: unknown key "grup_size" (did you mean "group_size"?)`},
		{"unknown key far from all", "rollout:\n  zebra: 8\n", `FILE: line 2: unknown key "zebra"`},
		{"unknown section", "\n\nalgoritm:\n  cliprange: 1\n", `line 3: unknown key "algoritm" (did you mean "algorithm"?)`},
		{"key of another section", "algorithm:\n  group_size: 8\n", `line 2: unknown key "group_size" (did you mean "rollout.group_size"?)`},
		{"key without its section", "learning_rate: 1\n", `line 1: unknown key "learning_rate" (did you mean "train.learning_rate"?)`},
		{"key with dots", "train.learning_rate: 1\n", `unknown key "train.learning_rate" (write train: and below it, indented, learning_rate:)`},
		{"alias of --set in a file", "train:\n  lr: 1\n", `unknown key "lr" (did you mean "train.learning_rate"?)`},
		{"capital letters", "train:\n  Learning_Rate: 1\n", `unknown key "Learning_Rate" (did you mean "learning_rate"?)`},
		{"duplicate key", "seed: 1\nname: a\nseed: 2\n", `line 3: duplicate key "seed": it is already in line 1`},
		{"both names of a key", "train:\n  num_iterations: 2\n  epochs_per_rollout_batch: 2\n", `line 3: duplicate key "train.epochs_per_rollout_batch": it is already in line 2, as "num_iterations"`},
		{"second name in the wrong section", "algorithm:\n  num_iterations: 2\n", `line 2: unknown key "num_iterations"`},
		{"second name with dots", "train.num_iterations: 2\n", `unknown key "train.num_iterations" (write train: and below it, indented, num_iterations:)`},
		{"number as a key", "1: x\n", `line 1: unknown key "1"`},
		{"list as a key", "? [a]\n: b\n", `line 1: want a key, not a list`},
		{"key of sft", "stages: []\n", `unknown key "stages"`},

		// Integers.
		{"fraction for an integer", "rollout:\n  group_size: 8.5\n", `FILE: line 2: rollout.group_size must be an integer, not 8.5`},
		{"whole fraction for an integer", "rollout:\n  group_size: 8.0\n", `not 8.0 (write 8)`},
		{"exponent for an integer", "rollout:\n  rollout_batch_size: 1e2\n", `not 1e2 (write 100)`},
		{"hexadecimal", "seed: 0x10\n", `seed must be an integer of 0 or more, not 0x10 (write 16)`},
		{"octal", "seed: 010\n", `not 010 (write 10)`},
		{"underscore", "seed: 1_000\n", `not 1_000 (write 1000)`},
		{"text for an integer", "seed: abc\n", `seed must be an integer of 0 or more, not abc`},
		{"quoted integer", "rollout:\n  group_size: \"8\"\n", `must be an integer, not the string "8" (remove the quotes)`},
		{"boolean for an integer", "rollout:\n  group_size: true\n", `must be an integer, not true`},
		{"nothing for an integer", "rollout:\n  group_size:\n", `must be an integer, not nothing (give a value or remove the line)`},
		{"beyond int", "rollout:\n  group_size: 9223372036854775808\n", `rollout.group_size is out of range: 9223372036854775808 is beyond the largest integer, 9223372036854775807`},
		{"beyond uint64", "seed: 18446744073709551616\n", `is beyond the largest integer, 18446744073709551615`},
		{"negative seed", "seed: -1\n", `seed must be an integer of 0 or more, not -1`},

		// Numbers.
		{"text for a number", "train:\n  learning_rate: fast\n", `train.learning_rate must be a number, not fast`},
		{"not a number", "train:\n  learning_rate: .nan\n", `train.learning_rate must be a finite number, not .nan`},
		{"infinity", "train:\n  learning_rate: -.inf\n", `must be a finite number, not -.inf`},
		{"too large", "train:\n  learning_rate: 1e999\n", `is out of range: 1e999 is too large`},
		{"too small", "train:\n  learning_rate: 1e-999\n", `is out of range: 1e-999 is too small for a 64-bit number (write 0)`},
		{"hexadecimal number", "train:\n  learning_rate: 0x1p-3\n", `must be a number, not 0x1p-3`},
		{"comma in a number", "train:\n  learning_rate: 0,001\n", `must be a number, not 0,001`},

		// Booleans, strings, lists.
		{"yes", "eval:\n  greedy: yes\n", `eval.greedy must be true or false, not yes (write true)`},
		{"capitalized boolean", "eval:\n  greedy: False\n", `not False (write false)`},
		{"one for true", "eval:\n  greedy: 1\n", `must be true or false, not 1 (write true)`},
		{"number for a string", "name: 2025\n", `name must be a string, not the value 2025 (write "2025", in quotes)`},
		{"null for a string", "name: ~\n", `name must be a string, not nothing`},
		{"two lines of text", "name: |\n  a\n  b\n", `name must be one line of printable text: it contains the character U+000A`},
		{"escape in a string", "name: \"a\\eb\"\n", `it contains the character U+001B`},
		{"scalar for a list", "reward:\n  functions: answer\n", `reward.functions must be a list of strings, not the value answer (write [a, b])`},
		{"number in a list of strings", "reward:\n  functions: [answer, 1]\n", `reward.functions element 2 must be a string, not the value 1`},
		{"text in a list of numbers", "reward:\n  reward_weights: [x]\n", `reward.reward_weights element 1 must be a number, not x`},
		{"list in a list", "reward:\n  reward_weights: [[1]]\n", `element 1 must be a number, not a list`},
		{"too short a pair", "train:\n  adam_betas: [0.9]\n", `train.adam_betas must be a list of 2 numbers, not of 1`},
		{"scalar for a section", "train: 5\n", `line 1: train must be a section with keys, not the value 5`},
		{"list for a section", "train: [1]\n", `train must be a section with keys, not a list`},
		{"empty section", "seed: 1\ntrain:\n", `line 2: train must be a section with keys, not nothing (remove the line or give it keys)`},

		// YAML itself.
		{"empty file", "", `load config: FILE: the file is empty: it sets no key`},
		{"list at the top", "- seed: 1\n", `line 1: want keys (such as "seed: 1") at the top, not a list`},
		{"text at the top", "hello\n", `line 1: want keys (such as "seed: 1") at the top, not the value hello`},
		{"two documents", "seed: 1\n---\nseed: 2\n", `line 3: a second YAML document begins: one file is one configuration`},
		{"broken first line", "seed: \"1\n", `FILE: line 1: not valid YAML`},
		{"bad indentation", "train:\n  n_grpo_steps: 1\n weight_decay: 0\n", `FILE: line 3: not valid YAML`},
		{"unclosed quote", "seed: 1\nname: 'a\n# end\n", `FILE: line 2: not valid YAML: found unexpected end of stream`},
		{"two colons", "seed: 1\nname: a: b\n", `FILE: line 2: not valid YAML: mapping values are not allowed in this context`},
		{"invalid UTF-8", "seed: 1\nname: \xff\xfe\n", `FILE: line 2: not a text file: it is not in UTF-8`},
		{"UTF-16", "\xff\xfes\x00", `FILE: line 1: not a text file: it is not in UTF-8`},
		{"alias", "seed: &a 1\ndata:\n  generator_seed: *a\n", `line 3: data.generator_seed is the alias *a: aliases are not supported (write the value out)`},
		{"merge key", "train: &a\n  weight_decay: 0\neval:\n  <<: *a\n", `line 4: merge keys (<<) are not supported`},
		{"alias in a list", "reward:\n  functions: [&a answer, *a]\n", `element 2 must be a string, not an alias`},
		{"tag in a list", "reward:\n  reward_weights: [!!float \"1\"]\n", `element 1 must be a number`},
	}
	for _, test := range tests {
		path := write(t, test.yaml)
		r, err := Load(LoadOptions{Path: path})
		if err == nil {
			t.Fatalf("accepted as %+v", r.Config)
		}
		want := strings.ReplaceAll(test.want, "FILE", path)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got  %v\nwant %s", test.name, err, want)
		}
		var e *Error
		if !errors.Is(err, ErrConfig) || !errors.As(err, &e) || len(e.Problems) != 1 {
			t.Errorf("%s: want one problem in an *Error, got %#v", test.name, err)
		}
	}
}

func TestStrictSFT(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"unknown key of a stage", "stages:\n  - name: a\n    corpus: capability\n    step: 5\n", `line 4: unknown key "step" (did you mean "steps"?)`},
		{"section for the list", "stages:\n  name: a\n", `line 1: stages must be a list of sections, not a section with keys`},
		{"text for a stage", "stages: [a]\n", `stages.0 must be a section with keys, not the value a`},
		{"too many", "stages: [" + strings.Repeat("{name: a},", 101) + "]\n", `stages has 101 sections, more than 100`},
		{"fraction", "stages:\n  - {name: a, corpus: answers, steps: 1.5}\n", `line 2: stages.0.steps must be an integer, not 1.5`},
		{"a stage without a corpus", "name: a\nstages:\n  - {name: a, corpus: answers, steps: 1}\n  - name: b\n    steps: 2\n", `x.yaml: line 4) must be one of capability`},
		{"shared stage", "stages:\n  - &a {name: a, corpus: answers, steps: 1}\n  - *a\n", `line 3: stages.1 is the alias *a`},
	}
	for _, test := range tests {
		_, err := LoadSFT(LoadOptions{Path: write(t, test.yaml)})
		wantError(t, test.name, err, test.want)
	}
}

// TestAccepted: unusual but valid spellings.
func TestAccepted(t *testing.T) {
	tests := []struct{ name, yaml, key, want string }{
		{"byte order mark", "\xef\xbb\xbfseed: 5\n", "seed", "5"},
		{"carriage returns", "seed: 5\r\nname: a\r\n", "seed", "5"},
		{"JSON", `{"seed": 5, "train": {"learning_rate": 1E-3}}`, "lr", "0.001"},
		{"document marker", "---\nseed: 5\n", "seed", "5"},
		{"integer for a number", "train:\n  learning_rate: 1\n", "lr", "1"},
		{"number without a zero", "train:\n  learning_rate: .5\n", "lr", "0.5"},
		{"negative zero", "train:\n  learning_rate: -0.0\n", "lr", "0"},
		{"word that is a boolean elsewhere", "name: yes\n", "name", `"yes"`},
		{"list in lines", "reward:\n  functions:\n    - answer\n    - format\n  reward_weights:\n    - 1\n    - .5\n", "reward_weights", "[1, 0.5]"},
		{"largest seed", "seed: 18446744073709551615\n", "seed", "18446744073709551615"},
		{"second name", "train:\n  num_iterations: 3\n", "epochs_per_rollout_batch", "3"},
		{"second name of the clip range", "algorithm:\n  epsilon: 0.1\n", "cliprange", "0.1"},
		{"second spelling of a loss", "algorithm:\n  loss_type: GRPO-No-Clip\n", "loss_type", "grpo_no_clip"},
		{"2026's name of an aggregation", "algorithm:\n  length_normalization: sequence\n", "length_normalization", "masked_mean"},
		{"TRL's name of the schedule", "train:\n  lr_scheduler_type: linear\n", "lr_scheduler", "linear"},
		{"TRL's name of a constant rate after warm-up", "train: {lr_scheduler_type: constant_with_warmup, warmup_steps: 3}\n", "lr_scheduler", "constant"},
		{"other alphabets", "name: größer\n", "name", `"größer"`},
	}
	for _, test := range tests {
		r, err := Load(LoadOptions{Path: write(t, test.yaml)})
		expect.OK(t, err)
		has(t, test.name, r, test.key, test.want)
	}
}

// TestAllProblemsAtOnce: every problem is reported once, without its consequences.
func TestAllProblemsAtOnce(t *testing.T) {
	path := write(t, `seeed: 1
rollout:
  rollout_batch_size: 250
  group_size: 7.5
  sampling_top_p: 2
train:
  learning_rate: fast
`)
	_, err := Load(LoadOptions{Path: path, Env: []string{"GRPO_SEEED=1"}, Set: []string{"algorithm.loss_type=gropo", "x=1"}})
	want := `load config: 7 problems:
  PATH: line 1: unknown key "seeed" (did you mean "seed"?)
  PATH: line 4: rollout.group_size must be an integer, not 7.5
  PATH: line 7: train.learning_rate must be a number, not fast
  environment: unknown variable GRPO_SEEED (did you mean "GRPO_SEED"?)
  --set: unknown key "x" ("grpo config show --docs" lists the keys)
  rollout.sampling_top_p (2, PATH: line 5) must be more than 0 and at most 1
  algorithm.loss_type ("gropo", --set algorithm.loss_type) must be one of LOSSES (did you mean "grpo"?)`
	want = strings.NewReplacer("PATH", path, "LOSSES", strings.Join(rl.RecipeNames(), ", ")).Replace(want)
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
