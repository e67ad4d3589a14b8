package config

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// broken is a configuration by --set that breaks one rule, with the message.
type broken struct{ set, want string }

// brokenBasics are about the sections other than reward and algorithm.
var brokenBasics = []broken{
	{"name=", `name ("", --set name) must not be empty`},
	{"data.source=gsm8", `data.source ("gsm8", --set data.source) must be one of generated, gsm8k, svamp (did you mean "gsm8k"?)`},
	{"annotations=drop", `data.annotations ("drop", --set annotations) must be one of keep, strip, equation`},
	{"prompt_template=r1zero", `(did you mean "r1_zero"?)`},
	{"weight_add=-1", `data.weight_add (-1, --set weight_add) must be at least 0`},
	{"weight_sub=-1", `data.weight_sub (-1, --set weight_sub) must be at least 0`},
	{"weight_mul=-1", `data.weight_mul (-1, --set weight_mul) must be at least 0`},
	{"weight_add=0 weight_sub=0 weight_mul=0", `data.weight_add (0, --set weight_add), data.weight_sub (0, --set weight_sub) and data.weight_mul (0, --set weight_mul) must not all be 0`},
	{"val_size=-1", `data.val_size (-1, --set val_size) must be at least 0 and at most 1048576`},
	{"val_size=0", `data.val_size (0, --set val_size) must be at least 1, because of data.source ("generated", default) (0 means all problems of a file)`},
	{"test_size=-1", `must be at least 0 and at most`},
	{"unseen_size=-1", `must be at least 0 and at most`},
	{"train_size=-1", `must be at least 0 and at most`},
	{"data.source=gsm8k val_file=v.jsonl", `data.train_file ("", default) must name a file, because of data.source ("gsm8k", --set data.source)`},
	{"data.source=svamp train_file=t.json", `data.val_file ("", default) must name a file`},
	{"train_file=t.jsonl", `data.train_file ("t.jsonl", --set train_file) would not be read, because of data.source ("generated", default) (set data.source to gsm8k or svamp)`},
	{"test_file=t.jsonl", `data.test_file ("t.jsonl", --set test_file) would not be read`},
	{"hidden_size=0", `model.hidden_size (0, --set hidden_size) must be at least 1 and at most 32768`},
	{"num_layers=257", `model.num_layers (257, --set num_layers) must be at least 1 and at most 256`},
	{"few_shot=4 prompt_template=chat init=x.gguf", `data.few_shot (4, --set few_shot) must be at least 0 and at most 3`},
	{"few_shot=-1 few_shot_file=f.jsonl prompt_template=chat init=x.gguf", `data.few_shot (-1, --set few_shot) must be at least 0 and at most 2147483647`},
	{"few_shot_file=f.jsonl", `data.few_shot_file ("f.jsonl", --set few_shot_file) has no effect, because of data.prompt_template ("plain", default) (use chat, or leave this key out)`},
	{"data.fields.question=q", `data.fields.question ("q", --set data.fields.question) has no effect, because of data.source ("generated", default) (set data.source to gsm8k or svamp, or leave this key out)`},
	{"data.fields.answer=a", `data.fields.answer ("a", --set data.fields.answer) has no effect, because of data.source ("generated", default) (set data.source to gsm8k or svamp, or leave this key out)`},
	{"few_shot=3", `data.few_shot (3, --set few_shot) has no effect, because of data.prompt_template ("plain", default) (use chat, or leave this key out)`},
	{"system_prompt=Hi", `data.system_prompt ("Hi", --set system_prompt) has no effect, because of data.prompt_template ("plain", default) (use chat, or leave this key out)`},
	{"prompt_template=chat", `data.prompt_template ("chat", --set prompt_template) needs a checkpoint with a chat template: set model.init to a Hugging Face folder or a GGUF file`},
	{"init=bas", `model.init ("bas", --set init) must be base, random or the path of a safetensors file (write ./bas for a file of this name) (did you mean "base"?)`},
	{"init=", `model.init ("", --set init) must be base, random or the path`},
	{"device=gpu", `model.device ("gpu", --set device) must be one of cpu, cuda, auto`},
	{"device=cuda precision=fp16", `model.precision ("fp16", --set precision) must be one of float32, tf32, bf16`},
	{"precision=tf32", `model.precision ("tf32", --set precision) has no effect, because of model.device ("cpu", default) (the CPU computes in float32; set model.device to cuda or auto)`},
	{"precision=bf16", `model.precision ("bf16", --set precision) has no effect, because of model.device ("cpu", default) (the CPU computes in float32`},
	{"precision=tf32 init=x.gguf", `model.precision ("tf32", --set precision) has no effect, because of model.device ("cpu", default) (the CPU computes in float32 or bf16; set model.device to cuda or auto)`},

	{"rollout_batch_size=0", `must be at least 1 and at most 1048576`},
	{"rollout_batch_size=2000000", `must be at least 1 and at most 1048576`},
	{"group_size=0", `rollout.group_size (0, --set group_size) must be at least 1`},
	{"group_size=7", `rollout.rollout_batch_size (256, default) must be a multiple of rollout.group_size (7, --set group_size)`},
	{"group_size=1", `rollout.group_size (1, --set group_size) must be at least 2, because algorithm.loss_type ("reinforce_with_baseline", default) compares the completions of a group`},
	{"group_size=1 loss_type=grpo_clip", `must be at least 2`},
	{"group_size=1 loss_type=grpo_no_clip", `must be at least 2`},
	{"sampling_temperature=0", `rollout.sampling_temperature (0, --set sampling_temperature) must be at least 1e-30 and at most 1e30`},
	{"sampling_temperature=1e-320", `rollout.sampling_temperature (1e-320, --set sampling_temperature) must be at least 1e-30`},
	{"sampling_top_p=0", `must be more than 0 and at most 1`},
	{"sampling_top_p=1.5", `must be more than 0 and at most 1`},
	{"sampling_top_k=-1", `must be at least 0`},
	{"sampling_min_tokens=-1", `must be at least 0 and at most 65536`},
	{"resample_every_n_steps=-1", `rollout.resample_every_n_steps (-1, --set resample_every_n_steps) must be at least 0`},
	{"sampling_max_tokens=0", `must be at least 1 and at most 65536`},
	{"sampling_min_tokens=65", `rollout.sampling_min_tokens (65, --set sampling_min_tokens) must be at most rollout.sampling_max_tokens (64, default)`},

	{"functions=[] reward_weights=[]", `reward.functions ([], --set functions) must name at least one of answer, format, random, `},
	{"functions=answr", `reward.functions ([answr], --set functions): "answr" must be one of answer, format, random, r1_zero, question_only, think_format, soft_overlong, repetition, cosine, last_number (did you mean "answer"?)`},
	{"functions=answer,answer reward_weights=1,1", `"answer" appears twice`},
	{"functions=answer,format", `reward.reward_weights ([1], default) must have one weight for each of reward.functions ([answer, format], --set functions): 2, not 1`},

	{"loss_type=grpo_clp", `algorithm.loss_type ("grpo_clp", --set loss_type) must be one of no_baseline, reinforce_with_baseline, grpo_clip, grpo_no_clip, grpo, bnpo, dr_grpo, dapo, cispo, sapo, luspo, vespo, vanilla, gpg, gspo, geo_mean, cispo_band (did you mean "grpo_clip"?)`},
	{"advantage_eps=-1e-6", `algorithm.advantage_eps (-1e-6, --set advantage_eps) must be at least 0`},
	{"cliprange=0", `algorithm.cliprange (0, --set cliprange) must be more than 0`},
	{"length_normalization=mean", `must be one of masked_mean, masked_normalize, constant, token-mean, `},
	{"normalize_constant=-1", `must be at least 0`},

	{"n_grpo_steps=0", `train.n_grpo_steps (0, --set n_grpo_steps) must be at least 1 and at most 2147483647`},
	{"n_grpo_steps=2147483648", `at most 2147483647`},
	{"epochs_per_rollout_batch=0", `must be at least 1`},
	{"train_batch_size=-1", `must be at least 0`},
	{"train_batch_size=100", `rollout.rollout_batch_size (256, default) must be a multiple of train.train_batch_size (100, --set train_batch_size)`},
	{"train_batch_size=512", `rollout.rollout_batch_size (256, default) must be a multiple of train.train_batch_size (512`},
	{"gradient_accumulation_steps=0", `must be at least 1`},
	{"gradient_accumulation_steps=3", `rollout.rollout_batch_size (256, default) must be a multiple of train.gradient_accumulation_steps (3, --set gradient_accumulation_steps)`},
	{"train_batch_size=64 gradient_accumulation_steps=128", `train.train_batch_size (64, --set train_batch_size) must be a multiple of train.gradient_accumulation_steps (128`},
	{"micro_batch_tokens=-1", `train.micro_batch_tokens (-1, --set micro_batch_tokens) must be at least 0`},
	{"lr=-1", `train.learning_rate (-1, --set lr) must be at least 0`},
	{"adam_betas=0.9,1", `train.adam_betas ([0.9, 1], --set adam_betas): element 2 must be at least 0 and less than 1`},
	{"adam_betas=-0.1,0.9", `element 1 must be at least 0 and less than 1`},
	{"adam_eps=0", `train.adam_eps (0, --set adam_eps) must be more than 0`},
	{"weight_decay=-1", `must be at least 0`},
	{"max_grad_norm=-1", `must be at least 0`},
	{"lr_scheduler=linaer", `train.lr_scheduler ("linaer", --set lr_scheduler) must be one of constant, linear, cosine (did you mean "linear"?)`},
	{"warmup_steps=-1", `train.warmup_steps (-1, --set warmup_steps) must be at least 0`},
	{"warmup_steps=200", `train.warmup_steps (200, --set warmup_steps) must be less than the number of optimizer updates, which is 200: train.n_grpo_steps (200, default) times 1 per step`},
	{"warmup_steps=1600 train_batch_size=64 num_iterations=2", `must be less than the number of optimizer updates, which is 1600: train.n_grpo_steps (200, default) times 8 per step`},
	{"warmup_steps=5 n_grpo_steps=5 lr_scheduler=linear", `which is 5: train.n_grpo_steps (5, --set n_grpo_steps)`},
	{"train.lora.rank=-1", `train.lora.rank (-1, --set train.lora.rank) must be at least 0 and at most 4096`},
	{"train.lora.rank=8", `train.lora.rank (8, --set train.lora.rank) needs a Llama or Qwen checkpoint: set model.init (--model) to a Hugging Face folder or a GGUF file`},
	{"train.lora.alpha=0", `train.lora.alpha (0, --set train.lora.alpha) must be more than 0`},
	{"train.lora.alpha=16", `train.lora.alpha (16, --set train.lora.alpha) has no effect, because of train.lora.rank (0, default) (set train.lora.rank, or leave this key out)`},
	{"train.lora.targets=q_proj,lm_head", `train.lora.targets ([q_proj, lm_head], --set train.lora.targets): "lm_head" must be one of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj`},
	{"train.lora.targets=[]", `train.lora.targets ([], --set train.lora.targets) must name at least one of q_proj, `},
	{"use_rslora=true", `train.lora.use_rslora (true, --set use_rslora) has no effect, because of train.lora.rank (0, default)`},
	{"train.lora.rank=8 init=x.gguf beta=0.1 ref_model_sync_steps=5", `algorithm.ref_model_sync_steps (5, --set ref_model_sync_steps) can't be combined with train.lora.rank (8, --set train.lora.rank): under LoRA the reference model is the base without the adapters, which does not move (leave ref_model_sync_steps out, or train all weights)`},
	{"adapter_base=x.gguf", `model.adapter_base ("x.gguf", --set adapter_base) has no effect, because of model.init ("base", default) (it is for a PEFT folder)`},
	{"eval.every_n_steps=0", `eval.every_n_steps (0, --set eval.every_n_steps) must be at least 1`},
	{"eval.temperature=0", `eval.temperature (0, --set eval.temperature) must be at least 1e-30 and at most 1e30`},
	{"eval.temperature=1e-320", `eval.temperature (1e-320, --set eval.temperature) must be at least 1e-30`},
	{"eval.top_p=0", `eval.top_p (0, --set eval.top_p) must be more than 0 and at most 1`},
	{"eval.top_k=-1", `eval.top_k (-1, --set eval.top_k) must be at least 0`},
	{"eval.min_tokens=-1", `eval.min_tokens (-1, --set eval.min_tokens) must be at least 0`},
	{"eval.max_tokens=-1", `eval.max_tokens (-1, --set eval.max_tokens) must be at least 0`},
	{"eval.min_tokens=9 eval.max_tokens=8", `eval.min_tokens (9, --set eval.min_tokens) must be at most eval.max_tokens (8, --set eval.max_tokens)`},
	{"eval.min_tokens=65", `eval.min_tokens (65, --set eval.min_tokens) must be at most rollout.sampling_max_tokens (64, default)`},
	{"save_samples=-1", `must be at least 0`},
	{"eval.sets=validation,unsen", `eval.sets ([validation, unsen], --set eval.sets): "unsen" must be one of validation, unseen, svamp, or the path of a file (write ./unsen for a file of this name) (did you mean "unseen"?)`},
	{"eval.sets=validation,./a.jsonl,./a.jsonl", `"./a.jsonl" appears twice`},
	{"eval.sets=unseen", `eval.sets ([unseen], --set eval.sets) must include validation, which selects the best weights`},
	{"eval.sets=validation,svamp", `eval.svamp_file ("", default) must be the path of SVAMP.json (from github.com/arkilpatel/SVAMP), because of eval.sets ([validation, svamp], --set eval.sets)`},
	{"eval.sets=validation,x/svamp.json,y/svamp.json", `the set of y/svamp.json would be called "svamp", like another one (rename the file)`},
	{"eval.sets=validation,./val.jsonl", `the set of ./val.jsonl would be called "val"`},
	{"set_size=-1", `eval.set_size (-1, --set set_size) must be at least 0`},
	{"sets_every_n_steps=-1", `eval.sets_every_n_steps (-1, --set sets_every_n_steps) must be at least 0`},
	{"sets_every_n_steps=15 eval.sets=validation,./a.jsonl", `eval.sets_every_n_steps (15, --set sets_every_n_steps) must be a multiple of eval.every_n_steps (10, default)`},
	{"checkpoint_every_n_steps=-1", `must be at least 0`},
	{"checkpoint_every_minutes=-1", `output.checkpoint_every_minutes (-1, --set checkpoint_every_minutes) must be at least 0`},
	{"keep_checkpoints=0", `must be at least 1`},
	{"output.formats=[gif]", `output.formats`},
	{"output.formats=[]", `output.formats`},
	{"output.keep=none", `output.keep ("none", --set output.keep) must be one of all, best`},
	{"launcher.type=slrum", `launcher.type ("slrum", --set launcher.type) must be one of local, slurm, kubernetes (did you mean "slurm"?)`},
	{"launcher.cpus=-1", `launcher.cpus (-1, --set launcher.cpus) must be at least 0`},
	{"launcher.parallelism=-1", `launcher.parallelism (-1, --set launcher.parallelism) must be at least 0`},
	{"launcher.kubernetes.gpus=-1", `launcher.kubernetes.gpus (-1, --set launcher.kubernetes.gpus) must be at least 0`},
	{"launcher.memory=4", `launcher.memory ("4", --set launcher.memory): write an amount of memory such as 800M or 4G`},
	{"launcher.memory=1K", `launcher.memory ("1K", --set launcher.memory): must be at least 1M`},
	{"launcher.time=1h", `launcher.time ("1h", --set launcher.time): write a time as Slurm takes it`},
	{"launcher.time=0", `launcher.time ("0", --set launcher.time): must be longer than 0`},
	{"launcher.partition=a;b", `launcher.partition ("a;b", --set launcher.partition) must be one word`},
	{"launcher.account=a'", `launcher.account ("a'", --set launcher.account) must be one word`},
	{"launcher.qos=$a", `launcher.qos ("$a", --set launcher.qos) must be one word`},
	{"launcher.gres=#", `launcher.gres ("#", --set launcher.gres) must be one word`},
	{"launcher.exclude=a|b", `launcher.exclude ("a|b", --set launcher.exclude) must be one word`},
	{"launcher.directives=#SBATCH", `launcher.directives (["#SBATCH"], --set launcher.directives): write an option of sbatch without "#SBATCH", such as --constraint=avx512, not "#SBATCH"`},
	{"launcher.kubernetes.image=a;b", `launcher.kubernetes.image ("a;b", --set launcher.kubernetes.image) must be one word`},
	{"launcher.kubernetes.namespace=a;b", `launcher.kubernetes.namespace ("a;b", --set launcher.kubernetes.namespace) must be one word`},
	{"launcher.kubernetes.claim=a;b", `launcher.kubernetes.claim ("a;b", --set launcher.kubernetes.claim) must be one word`},
	{"launcher.kubernetes.mount=a", `launcher.kubernetes.mount ("a", --set launcher.kubernetes.mount) must be an absolute path`},
	{"launcher.kubernetes.labels=a", `launcher.kubernetes.labels ([a], --set launcher.kubernetes.labels): write KEY=VALUE, not "a"`},
}

// TestRules breaks each rule by --set; the message names the key, its value,
// where it comes from, and the rule.
func TestRules(t *testing.T) {
	for _, test := range slices.Concat(brokenBasics, brokenReward, brokenAlgorithm) {
		t.Run(test.set, func(t *testing.T) {
			r, err := Load(LoadOptions{Set: strings.Fields(test.set)})
			if err == nil {
				t.Fatalf("accepted as %+v", r.Config)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			var e *Error
			if !errors.As(err, &e) || len(e.Problems) != 1 {
				t.Errorf("want one problem, got %v", err)
			}
		})
	}
}

// TestEveryCheckFails: every check fails in some case. Every key but booleans, seeds and launcher.setup is named by
// a message, and every message of the checks appears.
func TestEveryCheckFails(t *testing.T) {
	var problems []string
	for _, test := range slices.Concat(brokenBasics, brokenReward, brokenAlgorithm) {
		_, err := Load(LoadOptions{Set: strings.Fields(test.set)})
		var e *Error
		if errors.As(err, &e) {
			problems = append(problems, e.Problems...)
		}
	}
	for _, f := range leaves(Default()) {
		named := func(p string) bool { return strings.HasPrefix(p, f.path+" (") }
		kind := f.value.Kind()
		if f.path != "launcher.setup" && kind != reflect.Bool && kind != reflect.Uint64 && !slices.ContainsFunc(problems, named) {
			t.Errorf("no case is about %s", f.path)
		}
	}
	verb := regexp.MustCompile("%[sdq]")
	n := 0
	for _, name := range []string{"validate.go", "validate_algorithm.go", "effect.go", "validate_dpo.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			f, ok := node.(*ast.FuncDecl)
			if ok && (strings.HasPrefix(f.Name.Name, "inert") || receiver(f) == "SFT" || receiver(f) == "Stage") {
				return false // they have their own tests
			}
			lit, ok := node.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || !strings.Contains(lit.Value, " ") {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			parts := verb.Split(text, -1)
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			n++
			if !slices.ContainsFunc(problems, regexp.MustCompile(strings.Join(parts, ".*")).MatchString) {
				t.Errorf("%s: no case has the message %q", name, text)
			}
			return true
		})
	}
	if n < 40 {
		t.Errorf("only %d messages were found", n)
	}
}

// receiver is the type of a method's receiver.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return ""
	}
	return fmt.Sprint(star.X)
}

// TestRulesAtTheirLimits: the most extreme value that each rule allows.
func TestRulesAtTheirLimits(t *testing.T) {
	for _, set := range []string{
		"group_size=1 loss_type=no_baseline", "group_size=256", "sampling_min_tokens=64", "train_batch_size=256",
		"gradient_accumulation_steps=256", "lr=0", "adam_betas=0,0", "sampling_top_p=1", "weight_add=0 weight_sub=0",
		"test_size=0 unseen_size=0", "data.source=gsm8k train_file=a val_file=b", "init=random", "init=./base",
		"functions=random", "advantage_eps=0", "max_grad_norm=0", "n_grpo_steps=1", "rollout_batch_size=1048576",
		"reward_weights=0", "reward_weights=-1", "warmup_steps=199", "warmup_steps=1599 train_batch_size=64 num_iterations=2",
		"warmup_steps=2147483647 n_grpo_steps=2147483647 num_iterations=2147483647",
	} {
		if _, err := Load(LoadOptions{Set: strings.Fields(set)}); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
}

const twoStages = `name: two
stages:
  - name: capability
    corpus: capability
    examples: 100
    steps: 10
    warmup_steps: 5
  - name: preference
    corpus: preference
    steps: 20
    accept_sampled_max: 0.25
`

func TestRulesSFT(t *testing.T) {
	path := write(t, twoStages)
	tests := []struct{ set, want string }{
		{"stages.0.name=", `stages.0.name ("", --set stages.0.name) must not be empty`},
		{"stages.1.name=capability", `stages.1.name ("capability", --set stages.1.name) must not be the same as stages.0.name ("capability", FILE: line 3)`},
		{"stages.1.corpus=prefernce", `stages.1.corpus ("prefernce", --set stages.1.corpus) must be one of capability, preference, answers (did you mean "preference"?)`},
		{"stages.0.steps=0", `stages.0.steps (0, --set stages.0.steps) must be at least 1`},
		{"stages.0.steps=4", `stages.0.warmup_steps (5, FILE: line 7) must be at most stages.0.steps (4, --set stages.0.steps)`},
		{"stages.0.batch_size=101", `stages.0.batch_size (101, --set stages.0.batch_size) must be at most stages.0.examples (100, FILE: line 5)`},
		{"stages.0.final_lr_ratio=1.1", `must be at least 0 and at most 1`},
		{"stages.0.adam_betas=1,0", `element 1 must be at least 0 and less than 1`},
		{"stages.1.accept_sampled_min=0.5", `stages.1.accept_sampled_min (0.5, --set stages.1.accept_sampled_min) must be at most stages.1.accept_sampled_max (0.25`},
		{"eval_size=1025", `eval_size (1025, --set eval_size) must be at most data.val_size (1024, default)`},
		{"data.source=gsm8k data.train_file=a data.val_file=b stages.0.corpus=answers", `stages.1.corpus ("preference", FILE: line 9) consists of generated problems and can't be combined with data.source ("gsm8k", --set data.source) (use answers)`},
		{"steps=5", `--set: "steps" is the last part of several keys: write one of stages.0.steps, stages.1.steps`},
		{"stages.2.steps=5", `--set: unknown key "stages.2.steps"`},
		{"lr=5", `--set: unknown key "lr"`},
	}
	for _, test := range tests {
		t.Run(test.set, func(t *testing.T) {
			_, err := LoadSFT(LoadOptions{Path: path, Set: strings.Fields(test.set)})
			if want := strings.ReplaceAll(test.want, "FILE", path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	if _, err := LoadSFT(LoadOptions{Path: write(t, "seed: 1\n")}); err == nil || !strings.Contains(err.Error(), "stages must have at least one stage") {
		t.Errorf("no stages: got %v", err)
	}
}

// TestOriginInRules: a broken rule in a file names the line of each key.
func TestOriginInRules(t *testing.T) {
	path := write(t, "seed: 3\nrollout:\n\n  group_size: 7\n")
	_, err := Load(LoadOptions{Path: path})
	want := "load config: rollout.rollout_batch_size (256, default) must be a multiple of rollout.group_size (7, " + path + ": line 4)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestValidate(t *testing.T) {
	c := Default()
	if err := Validate(&c); err != nil {
		t.Errorf("the default: %v", err)
	}
	sft := DefaultSFT()
	sft.Stages = []Stage{DefaultStage()}
	if err := Validate(&sft); err == nil || !strings.Contains(err.Error(), "check config: 3 problems") {
		t.Errorf("a stage of defaults lacks name, corpus and steps, but: %v", err)
	}
	c.Rollout.GroupSize = 7
	err := Validate(&c)
	want := "check config: rollout.rollout_batch_size (256) must be a multiple of rollout.group_size (7)"
	if err == nil || err.Error() != want || !errors.Is(err, ErrConfig) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var zero Config
	if err := Validate(&zero); err == nil {
		t.Error("the zero configuration is accepted")
	}
}

// TestValidateEveryValue: no number may be NaN or infinite and no string unprintable, because it
// could not be written and read back.
func TestValidateEveryValue(t *testing.T) {
	for i, f := range leaves(Default()) {
		var bad []reflect.Value
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			switch f.value.Interface().(type) {
			case float64:
				bad = append(bad, reflect.ValueOf(x))
			case []float64:
				bad = append(bad, reflect.ValueOf([]float64{x}))
			case [2]float64:
				bad = append(bad, reflect.ValueOf([2]float64{0, x}))
			}
		}
		switch f.value.Interface().(type) {
		case string:
			bad = append(bad, reflect.ValueOf("a\nb"), reflect.ValueOf("\xff"))
		case []string:
			bad = append(bad, reflect.ValueOf([]string{"a\x00"}))
		}
		for _, b := range bad {
			c := Default()
			leaves(&c)[i].value.Set(b)
			if err := Validate(&c); err == nil || !strings.Contains(err.Error(), f.path) {
				t.Errorf("%s = %v: got %v", f.path, b, err)
			}
		}
	}
}
