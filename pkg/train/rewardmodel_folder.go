package train

import (
	"fmt"
	"path/filepath"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// save writes the model.
func (t *rewardTrainer) save() error {
	params := t.critic.State().Params
	if err := params.Pull(); err != nil {
		return err
	}
	t.rec.Weights = params.Hash()
	metadata := map[string]string{configKey: t.rec.ConfigHash}
	if t.folder == nil {
		t.rec.Model = rundir.ModelFile
		data, err := (&model.Checkpoint{Params: params, Metadata: metadata}).EncodeChecksummed()
		if err != nil {
			return err
		}
		return rundir.WriteFileAtomic(t.path(rundir.ModelFile), data)
	}
	t.rec.Model = rundir.ModelFolder
	return rundir.ReplaceFolder(t.path(rundir.ModelFolder), func(dir string) error {
		return t.folder.Write(dir, params, metadata)
	})
}

func (t *rewardTrainer) path(name string) string { return filepath.Join(t.opts.Dir, name) }

// sameRequest returns an error if the folder has a reward model of another configuration.
func (t *rewardTrainer) sameRequest() error {
	return sameRequest(t.opts.Dir, t.cfg, config.LoadRewardModel, RewardModelLog)
}

// finished returns the record of a finished run, or nil. It writes no files.
func (t *rewardTrainer) finished() (*RewardModelRecord, error) {
	if err := rundir.Allow(t.opts.Dir, rundir.KindReward, t.sameRequest); err != nil {
		return nil, err
	}
	return readRecord(t.opts.Dir, t.opts.Observer, func(rec *RewardModelRecord) error {
		if rec.ConfigHash != config.Hash(t.cfg) {
			return fmt.Errorf("%s is the record of another configuration", t.path(rundir.RecordFile))
		}
		then, paths := rec.InputFiles, t.paths()
		if then == nil { // of an earlier version
			then, paths = map[string]string{t.cfg.Pairs: rec.PairsSHA256}, []string{t.cfg.Pairs, t.cfg.EvalPairs}
			if t.cfg.EvalPairs != "" {
				then[t.cfg.EvalPairs] = rec.EvalPairsSHA256
			}
		}
		if err := sameRecorded(then, paths, t.opts.Observer); err != nil {
			return err
		}
		switch {
		case rec.Model == rundir.ModelFile:
			return hasWeights(t.path(rec.Model), rec.Weights)
		case rec.Model == rundir.ModelFolder:
			_, err := policy.VerifyFolder(t.path(rec.Model))
			return err
		}
		return fmt.Errorf("%s names the model %q", t.path(rundir.RecordFile), rec.Model)
	})
}

// paths are the files that the run reads.
func (t *rewardTrainer) paths() []string {
	return append(policy.Files(t.cfg.Model.Init, t.cfg.Model.AdapterBase), t.cfg.Pairs, t.cfg.EvalPairs)
}

// hashPairs notes the checksums of the files of pairs.
func (t *rewardTrainer) hashPairs() (err error) {
	for _, f := range []struct {
		path, key string
		to        *string
	}{{t.cfg.Pairs, "pairs", &t.rec.PairsSHA256}, {t.cfg.EvalPairs, "eval_pairs", &t.rec.EvalPairsSHA256}} {
		if f.path == "" {
			continue
		}
		if *f.to, err = regular.SHA256(f.path); err != nil {
			return config.Invalid(fmt.Errorf("read pairs: %w (%s)", err, f.key))
		}
	}
	return nil
}
