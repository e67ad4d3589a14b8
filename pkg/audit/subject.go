// Package audit asks where the gain of a recipe comes from: it finds the policies, samples them (package infer), trains
// placebos (package sweep), and has the answers written (packages analysis and report).
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/policy"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
)

// Request is what an audit is about: runs that differ in their seed alone, or the weights of one policy.
type Request struct {
	Dirs []string // folders of runs, or of one sweep
	Arm  string   // of a sweep with several

	Load        config.LoadOptions // of the weights: the problems and how completions are sampled
	Model, Base string             // the trained and the initial weights; Base empty: the configuration's

	Which    string // checkpoint of a run: last or best
	Split    string
	Problems int // the first ones of the split; 0 = all
	Samples  int // completions of each problem
}

// Subject are the policies of a request.
type Subject struct {
	Request
	Title   string
	Config  config.Config // with the initial weights
	Trained []infer.Trained
	Runs    []*rundir.Run // of Trained; none for weights without a run
	Hash    string        // of the request, for the name of a folder
	Decoder bool          // the network is a Llama or Qwen network
}

// Find finds the policies. note gets lines for the user.
func (r Request) Find(note func(string)) (*Subject, error) {
	s := &Subject{Request: r}
	find := s.runs
	if r.Model != "" {
		find = s.weights
	}
	if err := find(note); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	m, err := policy.Of(config.Resolve(s.Config))
	if err != nil {
		return nil, err
	}
	s.Decoder = m.IsDecoder()
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %s %s %d\n", config.Hash(s.Config), r.Which, r.Split, r.Samples) // never fails
	if r.Problems > 0 {
		_, _ = fmt.Fprintf(h, "%d problems\n", r.Problems)
	}
	for _, t := range s.Trained {
		_, _ = fmt.Fprintf(h, "%d %s\n", t.Config.Seed, config.Hash(t.Config))
	}
	s.Hash = hex.EncodeToString(h.Sum(nil))[:8]
	return s, nil
}

// weights finds the policies of a request by its weights.
func (s *Subject) weights(func(string)) error {
	load := func(init, flag string) (config.Config, error) {
		o := s.Load
		o.Only = s.Split
		if init != "" {
			o.Flags = append(o.Flags[:len(o.Flags):len(o.Flags)], config.Flag{Key: "model.init", Name: flag, Value: init})
		}
		r, err := config.Load(o)
		if err != nil {
			return config.Config{}, err
		}
		return r.Config, nil
	}
	var err error
	if s.Config, err = load(s.Base, "--base"); err != nil {
		return err
	}
	c, err := load(s.Model, "--model")
	if err != nil {
		return err
	}
	name := textutil.Printable(filepath.ToSlash(s.Model), 0)
	s.Trained, s.Title = []infer.Trained{{Name: name, Config: c}}, "Audit of "+name
	return nil
}

// runs finds the policies of a request by its runs.
func (s *Subject) runs(note func(string)) error {
	side, err := report.OpenSide(s.Dirs, s.Arm, "--arm")
	if err != nil {
		return err
	}
	for _, state := range side.Runs {
		if !state.Finished() {
			note(fmt.Sprintf("left out: seed %d, which is not finished", state.Seed))
			continue
		}
		s.Runs = append(s.Runs, state.Run)
	}
	if len(s.Runs) == 0 {
		return config.Invalid(fmt.Errorf("%s has no finished run", side.Name))
	}
	if _, err := analysis.ReadSeedInfos(s.Runs); err != nil {
		return config.Invalid(fmt.Errorf("%w; audit one recipe at a time", err))
	}
	for i, r := range s.Runs {
		own := config.LoadOptions{Path: filepath.Join(r.Dir, rundir.ConfigFile), Checkpoint: policy.FindCheckpoint}
		weights, err := checkpoint(r.Dir, s.Which, note)
		if err != nil {
			return err
		}
		if i == 0 {
			first, err := config.Load(own)
			if err != nil {
				return err
			}
			s.Config = first.Config
		}
		own.Flags = []config.Flag{{Key: "model.init", Name: "the checkpoint", Value: weights}}
		trained, err := config.Load(own)
		if err != nil {
			return err
		}
		t := infer.Trained{Name: fmt.Sprintf("seed %d", r.Result.Seed), Config: trained.Config}
		if r.Meta != nil {
			t.InitHash = r.Meta.InitHash
		}
		s.Trained = append(s.Trained, t)
	}
	s.Title = "Audit of " + side.Name
	return nil
}

// checkpoint is the path of a run's weights.
func checkpoint(dir, which string, note func(string)) (string, error) {
	path, _, err := policy.WeightsAt(dir, which)
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	if best, only := policy.OnlyBest(dir, path); only && which == "last" {
		note(fmt.Sprintf("%s kept only its best weights (output.keep=best); auditing these", dir))
		return best, nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return "", config.Invalid(fmt.Errorf("%s has no %s checkpoint: its weights are gone, and nothing can be sampled "+
		"(the same configuration trains the same weights again)", dir, which))
}
