package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// RunInfo is what a report needs to know of a run's configuration. It is read
// leniently, because a report must work on folders of other versions whose
// configuration has other keys; what is not there is zero.
type RunInfo struct {
	Name string  `yaml:"name"`
	Seed *uint64 `yaml:"seed"`

	Data struct {
		Source string `yaml:"source"`
	} `yaml:"data"`
	Model struct {
		Init   string `yaml:"init"`
		Width  int    `yaml:"hidden_size"`
		Layers int    `yaml:"num_layers"`
	} `yaml:"model"`
	Output struct {
		TensorBoard bool     `yaml:"tensorboard"`
		Formats     []string `yaml:"formats"`
	} `yaml:"output"`

	Report struct {
		Margin float64 `yaml:"margin"`
	} `yaml:"report"`

	Rollout struct {
		Size  int `yaml:"rollout_batch_size"`
		Group int `yaml:"group_size"`
	} `yaml:"rollout"`
	Reward struct {
		Functions []string `yaml:"functions"`
		Custom    []struct {
			Name  string `yaml:"name"`
			Model string `yaml:"model"`
		} `yaml:"custom"`
	} `yaml:"reward"`
	Algorithm struct {
		Type     string `yaml:"type"`
		LossType string `yaml:"loss_type"`
		LossExpr string `yaml:"loss_expr"`
		DPO      struct {
			LossType  any    `yaml:"loss_type"` // a list
			PairsFile string `yaml:"pairs_file"`
		} `yaml:"dpo"`
	} `yaml:"algorithm"`
	Train struct {
		Steps        int     `yaml:"n_grpo_steps"`
		LearningRate float64 `yaml:"learning_rate"`
		Scheduler    string  `yaml:"lr_scheduler"`
		Warmup       int     `yaml:"warmup_steps"`
		LoRA         struct {
			Rank int `yaml:"rank"`
		} `yaml:"lora"`
	} `yaml:"train"`
}

// ReadInfo reads the configuration; the result takes precedence.
func ReadInfo(r *rundir.Run) (RunInfo, error) {
	var a RunInfo
	a.Train.LearningRate = math.NaN()
	if err := yaml.Unmarshal(r.Config, &a); err != nil {
		return a, fmt.Errorf("report on %s: %s: %w", r.Dir, rundir.ConfigFile, err)
	}
	if res := r.Result; res != nil {
		a.Name, a.Seed = res.Name, &res.Seed
		a.Train.LearningRate = res.LearningRate
	} else if n := len(r.Metrics); n > 0 && !stats.IsFinite(a.Train.LearningRate) {
		a.Train.LearningRate = r.Metrics[n-1].LearningRate
	}
	if r.Status != nil && a.Train.Steps == 0 {
		a.Train.Steps = r.Status.Steps
	}
	a.Name = textutil.Printable(cmp.Or(a.Name, filepath.Base(r.Dir)), 0)
	switch {
	case a.Algorithm.LossExpr != "":
		a.Algorithm.LossType = "loss " + textutil.Shorten(a.Algorithm.LossExpr)
	case a.IsDPO():
		a.Algorithm.LossType = "DPO " + strings.Trim(fmt.Sprint(a.Algorithm.DPO.LossType), "[]")
	}
	a.Algorithm.LossType = textutil.Printable(a.Algorithm.LossType, 0)
	a.Data.Source, a.Model.Init = textutil.Printable(a.Data.Source, 0), textutil.Printable(a.Model.Init, 0)
	a.Train.Scheduler = textutil.Printable(a.Train.Scheduler, 0)
	return a, nil
}

// ReadSeedInfos reads the configurations of several seeds; it is an error when they
// are not of one configuration.
func ReadSeedInfos(runs []*rundir.Run) ([]RunInfo, error) {
	all, err := readInfos(runs)
	if err != nil {
		return nil, err
	}
	arms, _, differing, err := sortRuns(runs, all)
	switch {
	case err != nil:
		return nil, err
	case len(arms) > 1:
		return nil, fmt.Errorf("the %d runs are not seeds of one configuration: they differ in %s",
			len(runs), strings.Join(differing, ", "))
	}
	return all, nil
}

func readInfos(runs []*rundir.Run) ([]RunInfo, error) {
	all := make([]RunInfo, len(runs))
	for i, r := range runs {
		var err error
		if all[i], err = ReadInfo(r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// IsDPO reports whether the run trained on preference pairs.
func (a RunInfo) IsDPO() bool { return a.Algorithm.Type == "dpo" }

// LearnedRewards are the names of the run's reward functions that are reward models.
func LearnedRewards(r *rundir.Run) (out []string) {
	info, err := ReadInfo(r)
	if err != nil {
		return nil
	}
	for _, c := range info.Reward.Custom {
		judge := len(info.Reward.Functions) > 0 && !slices.Contains(info.Reward.Functions, c.Name) // of evaluations only
		if c.Model != "" && !judge {
			out = append(out, c.Name)
		}
	}
	return out
}

// SeedText is "seed 1".
func (a RunInfo) SeedText() string {
	if a.Seed == nil {
		return "seed unknown"
	}
	return fmt.Sprintf("seed %d", *a.Seed)
}

// OneRun states in a caption which run is shown.
func (a RunInfo) OneRun() string { return "One run, " + a.SeedText() + "." }

// schedule is "linear decay, warm-up of 5 updates"; empty for a constant rate.
func (a RunInfo) schedule() string {
	var parts []string
	if s := a.Train.Scheduler; s != "" && s != "constant" {
		parts = append(parts, s+" decay")
	}
	if n := a.Train.Warmup; n > 0 {
		parts = append(parts, "warm-up of "+textutil.Count(n, "update"))
	}
	return strings.Join(parts, ", ")
}

// SettingLine describes what all runs have in common, for the line below a title:
// a part that differs between them, or that no run has, is left out.
func SettingLine(all []RunInfo) string {
	var out []string
	for _, part := range []func(RunInfo) string{
		func(a RunInfo) string { return a.Name },
		func(a RunInfo) string {
			if !stats.IsFinite(a.Train.LearningRate) {
				return ""
			}
			return "learning rate " + textutil.Number(a.Train.LearningRate)
		},
		RunInfo.schedule,
		func(a RunInfo) string { return a.Algorithm.LossType },
		func(a RunInfo) string {
			r := a.Rollout
			if r.Group <= 0 || r.Size <= 0 {
				return ""
			}
			if a.IsDPO() && a.Algorithm.DPO.PairsFile != "" {
				return textutil.Count(r.Size/2, "pair") + " a step"
			}
			return fmt.Sprintf("%d prompts × %d completions a step", r.Size/r.Group, r.Group)
		},
	} {
		if s := Common(all, part); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "  ·  ")
}

// Common is what f returns for every element, or empty.
func Common[T any](all []T, f func(T) string) string {
	if len(all) == 0 || slices.ContainsFunc(all, func(x T) bool { return f(x) != f(all[0]) }) {
		return ""
	}
	return f(all[0])
}

// Unique lists what f returns for the elements, each once, without empty strings.
func Unique[T any](of []T, f func(T) string) []string {
	var out []string
	for _, x := range of {
		if s := f(x); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// evalKeys are the settings of sampled evaluations: how a caption writes a value,
// the value that it leaves out, and the rollout key that the first release used,
// whose configurations do not have the key.
var evalKeys = []struct{ key, was, text, off string }{
	{"eval.temperature", "rollout.sampling_temperature", "temperature %s", ""},
	{"eval.top_p", "rollout.sampling_top_p", "top-p %s", "1"},
	{"eval.top_k", "rollout.sampling_top_k", "top-k %s", "0"},
	{"eval.min_tokens", "rollout.sampling_min_tokens", "at least %s tokens", "0"},
	{"eval.max_tokens", "rollout.sampling_max_tokens", "at most %s tokens", ""},
	{"eval.reward", "", "judged by %s", ""},
}

// evalSettingsOf describes how the evaluations of a configuration sample; empty
// where the configuration does not say it.
func evalSettingsOf(config map[string]string) string {
	var parts []string
	for _, k := range evalKeys {
		v, ok := config[k.key]
		if !ok {
			v, ok = config[k.was]
		}
		if ok && v != k.off {
			parts = append(parts, fmt.Sprintf(k.text, textutil.Printable(v, 0)))
		}
	}
	return strings.Join(parts, ", ")
}

// EvalSettings describes how a configuration's evaluations sample: "temperature 1, at
// most 64 tokens".
func EvalSettings(config []byte) string { return evalSettingsOf(flatConfig(string(config))) }

// RunSettings is EvalSettings of a run.
func RunSettings(r *rundir.Run) string { return EvalSettings(r.Config) }

// SampledAt describes in captions how evaluations were sampled: "sampled at temperature
// 1, at most 64 tokens".
func SampledAt(runs []*rundir.Run) string {
	all := Unique(runs, RunSettings)
	switch {
	case len(all) > 1:
		return "sampled differently for some runs, which are not comparable (" + strings.Join(all, "; ") + ")"
	case len(all) == 1:
		return "sampled at " + all[0]
	}
	return "sampled"
}

// SampledTemperature is the same for a legend: "sampled, temperature 1".
func SampledTemperature(runs []*rundir.Run) string {
	all := Unique(runs, func(r *rundir.Run) string {
		s, _, _ := strings.Cut(RunSettings(r), ", ")
		return s
	})
	if len(all) == 1 {
		return "sampled, " + all[0]
	}
	return "sampled"
}

// armsDiffer lists what a function returns for the arms' configurations, if it does not
// say the same of all.
func (a *Analysis) armsDiffer(f func(config map[string]string) string) []string {
	arms := make([]int, len(a.Arms))
	for i := range arms {
		arms[i] = i
	}
	if all := Unique(arms, func(i int) string { return f(a.ConfigOf(i)) }); len(all) > 1 {
		return all
	}
	return nil
}

// TrainingTemperatures are the temperatures that the arms sample rollouts at, if
// they differ: entropy is then of different distributions.
func (a *Analysis) TrainingTemperatures() []string {
	return a.armsDiffer(func(c map[string]string) string {
		return textutil.Printable(c["rollout.sampling_temperature"], 0)
	})
}

// differing are the keys in which the resolved configurations of two arms differ;
// where they can't be read, all that vary in the sweep.
func (a *Analysis) differing(q pair) []string {
	m := &a.Sweep.Manifest
	x, y := a.ConfigOf(q.a), a.ConfigOf(q.b)
	var out []string
	for _, key := range m.Varied {
		v, okV := x[key]
		w, okW := y[key]
		// The values of the key that is tuned belong to the tuned arms.
		if key != m.BestOver && (!okV || !okW || v != w) {
			out = append(out, key)
		}
	}
	return out
}

// ConfigOf is the resolved configuration of an arm's first run, by full keys, with what
// the arm sets where that does not say.
func (a *Analysis) ConfigOf(arm int) map[string]string {
	out := map[string]string{}
	for _, e := range a.Sweep.Manifest.Runs {
		if e.Arm == arm && e.Config != "" {
			if out = maps.Clone(flatConfig(e.Config)); len(out) == 0 {
				return out
			}
			break
		}
	}
	for _, o := range a.Sweep.Manifest.Arms[arm].Set {
		if _, ok := out[o.Key]; !ok { // a kernel, say, which is in no configuration
			out[o.Key] = o.Value
		}
	}
	return out
}

// flatConfig is a configuration by full keys, to be read only; empty where it can't be read, so
// that every key counts as differing.
func flatConfig(text string) map[string]string {
	out, err := flatText(text)
	if err != nil {
		return map[string]string{}
	}
	return out
}

// flatText is the same with the reason why it can't be read.
func flatText(text string) (map[string]string, error) {
	if out, ok := flatTexts.Load(text); ok {
		return out.(map[string]string), nil
	}
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return nil, err
	}
	out := map[string]string{}
	flatten(out, "", tree)
	flatTexts.Store(text, out)
	return out, nil
}

func flatten(out map[string]string, prefix string, tree map[string]any) {
	for key, v := range tree {
		if sub, ok := v.(map[string]any); ok {
			flatten(out, prefix+key+".", sub)
			continue
		}
		out[prefix+key] = fmt.Sprint(v)
	}
}
