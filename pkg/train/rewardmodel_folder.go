package train

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/safetensors"
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
		t.rec.Model = SFTModelFile
		data, err := (&model.Checkpoint{Params: params, Metadata: metadata}).EncodeChecksummed()
		if err != nil {
			return err
		}
		return rundir.WriteFileAtomic(t.path(SFTModelFile), data)
	}
	t.rec.Model = RewardModelFolder
	var tensors []safetensors.Tensor
	for _, p := range params.Tensors() {
		tensors = append(tensors, safetensors.Tensor{Name: p.Name, Shape: p.Shape, Data: p.Data})
	}
	return rundir.ReplaceFolder(t.path(RewardModelFolder), func(dir string) error {
		return t.folder.Write(dir, "F32", tensors, metadata)
	})
}

func (t *rewardTrainer) path(name string) string { return filepath.Join(t.opts.Dir, name) }

// sameRequest returns an error if the folder has a reward model of another configuration.
func (t *rewardTrainer) sameRequest() error {
	differences := func() (string, bool, error) {
		old, err := config.LoadRewardModel(config.LoadOptions{Path: t.path(rundir.ConfigFile)})
		if err != nil {
			return "", true, err
		}
		return strings.Join(config.Diff(old.Config, t.cfg), "; "), config.Hash(old.Config) != config.Hash(t.cfg), nil
	}
	_, err := ownConfig(t.opts.Dir, config.Marshal(t.cfg), differences, RewardModelLog, SFTRecordFile)
	return err
}

// finished returns the record of a finished run, or nil. It writes no files.
func (t *rewardTrainer) finished() (*RewardModelRecord, error) {
	if err := rundir.Allow(t.opts.Dir, rundir.KindReward, t.sameRequest); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(t.path(SFTRecordFile)); err != nil {
		return nil, nil
	}
	rec := new(RewardModelRecord)
	err := rundir.ReadJSON(t.path(SFTRecordFile), rec)
	switch {
	case err != nil:
	case rec.ConfigHash != config.Hash(t.cfg):
		err = fmt.Errorf("%s is the record of another configuration", t.path(SFTRecordFile))
	case rec.PairsSHA256 != t.rec.PairsSHA256 || rec.EvalPairsSHA256 != t.rec.EvalPairsSHA256:
		err = fmt.Errorf("%s was trained on other contents of %s", t.opts.Dir, strings.Trim(t.cfg.Pairs+", "+t.cfg.EvalPairs, ", "))
	case !slices.Contains([]string{SFTModelFile, RewardModelFolder}, rec.Model):
		err = fmt.Errorf("%s names the model %q", t.path(SFTRecordFile), rec.Model)
	case rec.Model == SFTModelFile:
		var c *model.Checkpoint
		if c, err = readOwn(t.path(rec.Model)); err == nil && c.Params.Hash() != rec.Weights {
			err = fmt.Errorf("%s does not hold the weights that %s names", t.path(rec.Model), SFTRecordFile)
		}
	default:
		err = hf.Verify(t.path(rec.Model))
	}
	if err != nil {
		return nil, fmt.Errorf("%w (the run is done: put the file back, or start in a new folder with --fresh)", err)
	}
	t.opts.Observer.Note(fmt.Sprintf("the run in %s is done; this is its record (no file was changed)", t.opts.Dir))
	return rec, nil
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
