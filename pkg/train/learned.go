package train

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/kernel"
	"grpo/pkg/preference"
	"grpo/pkg/reward"
)

// learnedReward is a reward model as a reward function. It has a tokenizer of its own: a completion
// is the text that a pair of package preference would have. It computes on the CPU.
type learnedReward struct {
	name        string
	nullOnError bool
	encoder     *pairEncoder
	values      valuer
	pool        *kernel.Pool
}

// valuer is a reward model that is not trained.
type valuer interface {
	Values(*model.Batch) (*model.ValueMatrix, error)
	Close() error
}

func openLearned(c config.CustomReward, threads int) (reward.Function, error) {
	path, err := rewardModelAt(c.Model)
	if err != nil {
		return nil, fmt.Errorf("reward %s: %w", c.Name, err)
	}
	l := &learnedReward{name: c.Name, nullOnError: c.OnError == "null", pool: kernel.NewPool(threads)}
	if l.encoder, l.values, err = openRewardModel(path, l.pool); err != nil {
		l.pool.Close()
		return nil, fmt.Errorf("reward %s: %w", c.Name, err)
	}
	return l, nil
}

// Score implements [reward.Function].
func (l *learnedReward) Score(b reward.Batch) (reward.Scores, error) {
	out := reward.Scores{Rewards: make([]float64, len(b.Completions))}
	batch, at, tokens := &model.Batch{}, []int(nil), 0
	flush := func() error {
		if len(batch.Rows) == 0 {
			return nil
		}
		m, err := l.values.Values(batch)
		if err != nil {
			return fmt.Errorf("reward %s: %w", l.name, err)
		}
		for row, i := range at {
			x := m.Values[lastValue(m, batch, row)]
			if notFinite(x) {
				return fmt.Errorf("reward %s: the reward of %s is %v: the reward model is not usable", l.name,
					textutil.Quote(b.Completions[i].Completion), x)
			}
			out.Rewards[i] = x
		}
		batch, at, tokens = &model.Batch{}, nil, 0
		return nil
	}
	var prompt []int
	var last string // the text of prompt: those of a group are the same
	for i, c := range b.Completions {
		if i == 0 || c.Prompt != last {
			prompt, last = nil, c.Prompt
		}
		ids, completion, err := l.encoder.sequence(prompt, c)
		if err != nil && l.nullOnError {
			out.Rewards[i] = math.NaN()
			continue
		} else if err != nil {
			return out, fmt.Errorf("reward %s: step %d: %w (on_error: \"null\" leaves out such completions)", l.name, b.Step, err)
		}
		n := len(ids) + len(completion)
		if tokens += n; tokens > evalTokens {
			if err := flush(); err != nil {
				return out, err
			}
			tokens = n
		}
		if k := len(batch.Prompts); k == 0 || prompt == nil || !slices.Equal(batch.Prompts[k-1], ids) {
			batch.Prompts = append(batch.Prompts, ids)
		}
		prompt = ids
		batch.Rows, at = append(batch.Rows, rewardRow(len(batch.Prompts)-1, completion)), append(at, i)
	}
	return out, flush()
}

// Close implements [reward.Function].
func (l *learnedReward) Close() {
	_ = l.values.Close() // frees memory only
	l.pool.Close()
}

// sequence is the tokens of a completion and of its prompt, which is nil if it is not known.
func (e *pairEncoder) sequence(prompt []int, c reward.Completion) (ids, completion []int, err error) {
	if prompt == nil {
		if prompt, err = e.prompt(c.Prompt); err != nil {
			return nil, nil, err
		}
	}
	if completion, err = e.completion(c.Prompt, c.Completion, !c.Ended); err != nil {
		return nil, nil, err
	}
	switch n := len(prompt) + len(completion); {
	case len(prompt) == 0 || len(completion) == 0:
		return nil, nil, fmt.Errorf("the prompt or the completion %w", preference.ErrEmpty)
	case e.context > 0 && n > e.context:
		return nil, nil, fmt.Errorf("the prompt and the completion %s have %d tokens, %w of %d", textutil.Quote(c.Completion), n,
			errTooLong, e.context)
	}
	return prompt, completion, nil
}

// rewardModelAt returns the weights of a reward model: a Hugging Face folder or a safetensors file.
// path is one of them, the folder of `grpo reward-model`, or a name in the Hugging Face cache.
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
	for _, name := range []string{RewardModelFolder, SFTModelFile} {
		part := filepath.Join(path, name)
		if name == RewardModelFolder && (regular.Folder(part) != nil || !decoder.IsCheckpoint(part)) {
			continue
		}
		if _, err := os.Lstat(part); err == nil {
			return part, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("open reward model: %w", err)
		}
	}
	return "", fmt.Errorf("open reward model %s: the folder has neither %s nor %s nor config.json (give the folder of "+
		"\"grpo reward-model\", when it is done, or a Hugging Face folder)", path, RewardModelFolder, SFTModelFile)
}

// hashRewardModel returns the SHA-256 of the files of a reward model, by path.
func hashRewardModel(name string) (map[string]string, error) {
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
