package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"grpo/internal/hubcache"
	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/rundir"
)

// decoderRate is the default learning rate of a Llama or Qwen network: TinyLM's would destroy it.
const decoderRate = 1e-5

// decoderEvalTokens bounds the completions of a Llama or Qwen network by default, where no run is trained: nearly all
// answers to GSM8K are shorter.
const decoderEvalTokens = 256

// FindCheckpoint is the finder of [config.LoadOptions]. A path is one of
//
//   - a safetensors file, a Hugging Face or PEFT folder, or a GGUF file;
//   - a folder of `grpo sft`;
//   - a run folder: its last checkpoint, or the best if the finished run kept only that;
//   - the name of a model in the Hugging Face cache, to which the commit is added.
//
// For an unreadable path it returns no file: loading it reports the reason.
func FindCheckpoint(path, adapterBase string) (config.Checkpoint, error) {
	file := path
	info, err := os.Stat(path)
	if n, ok := hubcache.Parse(path); ok && errors.Is(err, fs.ErrNotExist) {
		found, pinned, cacheErr := hubcache.Find(n, os.Getenv)
		if cacheErr != nil {
			return config.Checkpoint{}, fmt.Errorf("no such file or folder; %w%s", cacheErr, pullHint(n, cacheErr))
		}
		path, file = found, pinned.String()
		info, err = os.Stat(path)
	}
	switch {
	case err != nil && decoder.IsCheckpoint(path):
		return config.Checkpoint{}, fmt.Errorf("%w (name the model's file or folder with --model)", err)
	case err != nil:
		return config.Checkpoint{}, nil
	case info.IsDir() && !IsModel(path):
		if file, err = weightsIn(path); err != nil {
			return config.Checkpoint{}, err
		}
	case !strings.ContainsAny(file, `/\.`):
		file = "./" + path // not a name such as "base"
	}
	s, err := sourceOf(file, adapterBase)
	if err != nil {
		return config.Checkpoint{}, err
	}
	if s != nil {
		d, err := decoder.Describe(s.base)
		if err != nil {
			return config.Checkpoint{}, err
		}
		return config.Checkpoint{File: file, HiddenSize: d.Size.Hidden, NumLayers: d.Size.Layers,
			LearningRate: decoderRate, EvalTokens: min(decoderEvalTokens, d.Size.Context/4), LoRA: s.lora}, nil
	}
	if err := maybeWeights(file); err != nil {
		return config.Checkpoint{}, err
	}
	spec, err := tinylm.ReadSpec(file)
	if err != nil {
		if lost := lostStart(file); lost != nil {
			return config.Checkpoint{}, lost
		}
	}
	switch {
	case err != nil && info.IsDir():
		return config.Checkpoint{}, fmt.Errorf("%w (a Hugging Face folder has config.json and tokenizer.json too)", err)
	case err != nil:
		return config.Checkpoint{}, nil
	}
	return config.Checkpoint{File: file, HiddenSize: spec.Hidden, NumLayers: spec.Layers}, nil
}

// maybeWeights returns an error for a file that can't be weights, whatever is damaged: it does not
// begin as a safetensors file.
func maybeWeights(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return nil // reported by others
	}
	start := make([]byte, 9) // the length of the header, and its first byte
	if info.Mode().IsRegular() {
		f, err := regular.Named(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.ReadFull(f, start); err == nil && start[8] == '{' {
			return nil
		}
	}
	return errors.New("it is not a checkpoint (give a safetensors or GGUF file, a Hugging Face or PEFT folder, " +
		"or the folder of a run or of grpo sft)")
}

// pullHint ends an error about a model that is not in the cache.
func pullHint(n hubcache.Name, err error) string {
	if !errors.Is(err, hubcache.ErrNotCached) {
		return ""
	}
	argv := []string{"grpo", "pull", "model", n.ID()}
	if n.Revision != "" {
		argv = append(argv, "--revision", n.Revision)
	}
	if n.File != "" {
		argv = append(argv, "--gguf", n.File)
	}
	return fmt.Sprintf(" (to download it: %s)", textutil.CommandLine(argv))
}

// local returns the path of a model: a name such as OWNER/NAME@COMMIT, if there is no such file, is
// found in the Hugging Face cache. Names without a commit may be paths, which others report.
func local(init string) (string, error) {
	n, ok := hubcache.Parse(init)
	if !ok {
		return init, nil
	}
	if _, err := os.Stat(init); !errors.Is(err, fs.ErrNotExist) {
		return init, nil
	}
	path, _, err := hubcache.Find(n, os.Getenv)
	switch {
	case err == nil:
		return path, nil
	case hubcache.CommitForm().MatchString(n.Revision):
		return "", fmt.Errorf("%w%s", err, pullHint(n, err))
	}
	return init, nil
}

// InCache reports whether a name, of which there is no file, is a model in the Hugging Face cache.
func InCache(name string) bool {
	path, err := local(name)
	return err == nil && path != name
}

// IsModel reports whether path is a Llama or Qwen model that is no run: a Hugging Face or PEFT folder,
// or a GGUF file.
func IsModel(path string) bool { return decoder.IsCheckpoint(path) || hf.IsAdapter(path) }

// weightsIn returns the weights in a folder: a file, or the best weights of a Llama or Qwen run.
func weightsIn(dir string) (string, error) {
	names := []string{rundir.ModelFile, filepath.Join(rundir.CheckpointDir, rundir.LastFile),
		filepath.Join(rundir.CheckpointDir, rundir.BestFile), filepath.Join(rundir.CheckpointDir, rundir.BestFolder)}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := regular.Folder(filepath.Dir(path)); err != nil {
			return "", err
		}
		err := regular.Check(path, regular.MaxCheckpoint)
		if err == nil || name == names[3] && regular.Folder(path) == nil && IsModel(path) {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("no weights in this folder: none of %s (give the folder of grpo sft "+
		"or of a run, or a safetensors file)",
		strings.Join(names, ", "))
}

const giveModel = "give a run's folder, a checkpoint, a Hugging Face or PEFT folder or a GGUF file"

// WeightsAt returns the weights that path names: a Hugging Face or PEFT folder, a GGUF file, a checkpoint's file or a
// name in the Hugging Face cache as it is, the weights of a folder of grpo sft, or of a run's folder (ofRun) the "best"
// or "last" checkpoint.
func WeightsAt(path, which string) (weights string, ofRun bool, err error) {
	info, err := os.Stat(path)
	switch {
	case InCache(path):
		return path, false, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", false, config.Invalid(errors.New("no such file or folder; " + giveModel))
	case err != nil:
		return "", false, config.Invalid(err)
	case !info.IsDir() || IsModel(path):
		return path, false, nil
	}
	if file := filepath.Join(path, rundir.ModelFile); regular.Check(file, regular.MaxCheckpoint) == nil {
		return file, false, nil
	}
	kind, err := rundir.KindOf(path)
	if err != nil {
		return "", false, err
	}
	if kind == rundir.KindSweep || kind == rundir.KindStudy {
		return "", false, config.Invalid(fmt.Errorf("it is %s; give the folder of one of its runs", kind))
	}
	weights = rundir.CheckpointIn(path, which)
	if kind == rundir.KindEmpty || kind == rundir.KindOther {
		if _, err := os.Lstat(weights); err != nil {
			return "", false, config.Invalid(errors.New("this folder has neither a run nor weights; " + giveModel))
		}
	}
	if err = regular.Folder(filepath.Dir(weights)); errors.Is(err, fs.ErrNotExist) {
		err = nil // the weights may be missing
	}
	return weights, true, err
}

// OnlyBest reports whether a run lacks the weights that [WeightsAt] found, but kept its best ones, and returns the path
// of these.
func OnlyBest(dir, weights string) (best string, only bool) {
	missing := func(path string) bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	best = rundir.CheckpointIn(dir, "best")
	return best, missing(weights) && !missing(best)
}

// ReadOwn reads a checkpoint in a result folder.
func ReadOwn(path string) (*model.Checkpoint, error) {
	if err := regular.Check(path, regular.MaxCheckpoint); err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	return model.ReadCheckpointFile(path)
}
