package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"grpo/internal/regular"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/rundir"
)

// NewRewardModel returns a reward model that starts with the policy's network and rewards of 0.
func NewRewardModel(p model.Policy, o model.AdamWOptions, checkpointing bool) (model.Critic, error) {
	if d, ok := p.(*decoder.Policy); ok {
		return d.NewRewardModel(o, checkpointing), nil
	}
	c, err := p.NewCritic(o, checkpointing)
	return c, LearnerError(err)
}

// RewardModel is a reward model that is not trained.
type RewardModel interface {
	Values(*model.Batch) (*model.ValueMatrix, error)
	Close() error
}

// OpenRewardModel opens a reward model and the encoder of its tokens. name is a Hugging Face folder, a safetensors
// file, the folder of `grpo reward-model`, or a name in the Hugging Face cache.
func OpenRewardModel(name string, on *kernel.Pool) (*PairEncoder, RewardModel, error) {
	path, err := rewardModelAt(name)
	if err != nil {
		return nil, nil, err
	}
	if !decoder.IsCheckpoint(path) {
		m, err := tinylm.OpenRewardModel(path, on)
		return &PairEncoder{tok: tinylm.Tokenizer{}}, m, err
	}
	d, err := decoder.Describe(path)
	if err != nil {
		return nil, nil, err
	}
	if err := d.Tokenizer.Special().Check(); err != nil {
		return nil, nil, fmt.Errorf("open reward model %s: %w", path, err)
	}
	m, err := decoder.OpenRewardModel(path, on)
	chat, _ := d.Chat() // nil without a template
	return &PairEncoder{tok: d.Tokenizer, chat: chat, context: d.Size.Context}, m, err
}

// RewardRow is a row whose last value is that of the state after the completion: its last token is
// not read.
func RewardRow(prompt int, completion []int) model.Row {
	return model.Row{Prompt: prompt, Tokens: append(slices.Clone(completion), 0)}
}

// LastValue is the element of the last value of a row.
func LastValue(m *model.ValueMatrix, b *model.Batch, row int) int {
	return row*m.T + len(b.Rows[row].Tokens) - 1
}

// RewardModelSize is the size of a reward model's network; nil if it can't be read.
func RewardModelSize(name string) model.Size {
	path, err := rewardModelAt(name)
	switch {
	case err != nil:
	case decoder.IsCheckpoint(path):
		if d, err := decoder.Describe(path); err == nil {
			return d.Size
		}
	default:
		if spec, err := tinylm.ReadSpec(path); err == nil {
			return spec
		}
	}
	return nil
}

// HashRewardModel returns the SHA-256 of the files of a reward model, by path.
func HashRewardModel(name string) (map[string]string, error) {
	path, err := rewardModelAt(name)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, file := range filesIn(path) {
		if filepath.Ext(file) == ".jinja" { // which earlier versions did not record
			continue
		}
		if out[file], err = regular.SHA256(file); err != nil {
			return nil, fmt.Errorf("hash a file of a reward model: %w", err)
		}
	}
	return out, nil
}

// rewardModelAt returns the weights of a reward model: a Hugging Face folder or a safetensors file.
func rewardModelAt(path string) (string, error) {
	path, err := local(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("open reward model: %w (give the folder of \"grpo reward-model\")", err)
	case !info.IsDir() || decoder.IsCheckpoint(path):
		return path, nil
	}
	for _, name := range []string{rundir.ModelFolder, rundir.ModelFile} {
		part := filepath.Join(path, name)
		if name == rundir.ModelFolder && (regular.Folder(part) != nil || !decoder.IsCheckpoint(part)) {
			continue
		}
		if _, err := os.Lstat(part); err == nil {
			return part, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("open reward model: %w", err)
		}
	}
	return "", fmt.Errorf("open reward model %s: the folder has neither %s nor %s nor config.json (give the folder of "+
		"\"grpo reward-model\", when it is done, or a Hugging Face folder)", path, rundir.ModelFolder, rundir.ModelFile)
}
