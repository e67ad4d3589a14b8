package analysis

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/internal/textutil"
	"grpo/internal/words"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// about is what a report needs to know of a run's configuration. It is read
// leniently, because a report must work on folders of other versions whose
// configuration has other keys; what is not there stays zero.
type RunInfo struct {
	Name string  `yaml:"name"`
	Seed *uint64 `yaml:"seed"`

	Rollout struct {
		Size  int `yaml:"rollout_batch_size"`
		Group int `yaml:"group_size"`
	} `yaml:"rollout"`
	Algorithm struct {
		LossType string `yaml:"loss_type"`
	} `yaml:"algorithm"`
	Train struct {
		Steps        int     `yaml:"n_grpo_steps"`
		LearningRate float64 `yaml:"learning_rate"`
	} `yaml:"train"`
}

// readAbout takes the configuration first and the result over it.
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
	if a.Name == "" {
		a.Name = filepath.Base(r.Dir)
	}
	a.Name, a.Algorithm.LossType = textutil.Printable(a.Name, 0), textutil.Printable(a.Algorithm.LossType, 0)
	return a, nil
}

// seed is the run's seed in words.
func (a RunInfo) SeedText() string {
	if a.Seed == nil {
		return "seed unknown"
	}
	return fmt.Sprintf("seed %d", *a.Seed)
}

// aboutAll reads what is known of each of several seeds; it is an error when they
// are not of one configuration.
func ReadSeedInfos(runs []*rundir.Run) ([]RunInfo, error) {
	if err := sameArm(runs); err != nil {
		return nil, err
	}
	return readInfos(runs)
}

// readAll reads what is known of each run.
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

// setting describes what all runs have in common, for the line below a title:
// a part that differs between them, or that no run states, is left out.
func SettingLine(all []RunInfo) string {
	parts := []func(RunInfo) string{
		func(a RunInfo) string { return a.Name },
		func(a RunInfo) string {
			if !stats.IsFinite(a.Train.LearningRate) {
				return ""
			}
			return "learning rate " + words.Number(a.Train.LearningRate)
		},
		func(a RunInfo) string { return a.Algorithm.LossType },
		func(a RunInfo) string {
			if a.Rollout.Group <= 0 || a.Rollout.Size <= 0 {
				return ""
			}
			return fmt.Sprintf("%d prompts × %d completions a step", a.Rollout.Size/a.Rollout.Group, a.Rollout.Group)
		},
	}
	var out []string
	for _, part := range parts {
		if s := Common(all, part); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "  ·  ")
}

// Common is what f says of every run, or empty.
func Common[T any](all []T, f func(T) string) string {
	if len(all) == 0 {
		return ""
	}
	first := f(all[0])
	if slices.ContainsFunc(all, func(a T) bool { return f(a) != first }) {
		return ""
	}
	return first
}

// one says of which run a figure of a single one is.
func (a RunInfo) OneRun() string { return "One run, " + a.SeedText() + "." }
