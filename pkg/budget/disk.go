package budget

import (
	"cmp"
	"os"
	"path/filepath"

	"grpo/pkg/config"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// DiskCheck accepts or rejects the bytes that a command is going to write below a folder; its error
// ends the command before any file is written. A nil check accepts everything.
type DiskCheck func(dir string, bytes float64) error

// Pass calls the check.
func (f DiskCheck) Pass(dir string, bytes float64) error {
	if f == nil {
		return nil
	}
	return f(dir, bytes)
}

// Disk is the space that a run takes on the disk, in bytes, at most.
type Disk struct {
	Peak float64 // while it runs and saves
	Kept float64 // when it is done: see output.keep
}

// DiskOf estimates the space of a resolved configuration's run.
func DiskOf(m *policy.Model, cfg config.Config) Disk {
	const tokenizer = 32 << 20
	logs := logBytes(cfg)
	best, checkpoint := m.Size.ParamBytes(), CheckpointBytes(m, cfg)
	if m.IsDecoder() && cfg.Train.LoRA.Rank == 0 {
		best += min(tokenizer, bytesAt(m.Base())) // the best weights are a folder with the files of the model
	}
	all := float64(max(1, cfg.Output.KeepCheckpoints)) * checkpoint
	// A file is replaced only when the new one is complete.
	d := Disk{Peak: all + best + checkpoint + best + logs, Kept: all + best + logs}
	if m.IsDecoder() {
		d.Peak += unfinishedBytes(cfg)
	}
	if cfg.Output.Keep == "best" {
		d.Kept = best + logs
	}
	return d
}

const wholeFile = 8192 // problems of a file of unknown size

// logBytes bounds the JSONL files. Right or wrong of each completion of an evaluation takes a bit of a hex digit.
func logBytes(cfg config.Config) float64 {
	const usual, perByte = 2 << 20, 4
	e, steps := cfg.Eval, cfg.Train.NGRPOSteps
	evaluations := float64(2 + steps/max(1, e.EveryNSteps))
	bits := evaluations*float64(valSize(cfg))*float64(e.Samples) + float64(lastProblems(cfg))*float64(e.LastSamples())
	return usual + bits/perByte
}

// unfinishedBytes bounds the completions of evaluations that are not over, which are of one step.
func unfinishedBytes(cfg config.Config) float64 {
	const perToken = 8
	completions := valSize(cfg)*(cfg.Eval.Samples+1) + lastProblems(cfg)*(cfg.Eval.LastSamples()+1)
	return perToken * float64(completions) * float64(cfg.Eval.MaxTokens)
}

func valSize(cfg config.Config) int { return cmp.Or(cfg.Data.ValSize, wholeFile) }

// lastProblems is the number of problems of the evaluations after the last step.
func lastProblems(cfg config.Config) int {
	return max(cfg.Data.ValSize, cmp.Or(cfg.Eval.FinalSize, wholeFile)) + cmp.Or(cfg.Data.TestSize, wholeFile)
}

// CheckpointBytes is the size of a checkpoint, at most.
func CheckpointBytes(m *policy.Model, cfg config.Config) float64 {
	a, one := cfg.Algorithm, m.Size.ParamBytes()
	bytes := 3 * one // the weights and two moments
	if a.NeedsReference() && (!m.IsDecoder() || a.RefModelSyncSteps > 0) {
		bytes += one
	}
	if cfg.Rollout.ResampleEveryNSteps > 1 {
		bytes += one
	}
	if a.Type == "ppo" {
		bytes += 3 * one
	}
	return bytes
}

// Less returns what the run in dir still needs: without the space of its checkpoints there.
func (d Disk) Less(dir string) Disk {
	checkpoints := filepath.Join(dir, rundir.CheckpointDir)
	used := bytesAt(checkpoints) + bytesAt(filepath.Join(checkpoints, rundir.BestFolder))
	return Disk{max(0, d.Peak-used), max(0, d.Kept-used)}
}

// bytesAt is the size of a file, or of the files in a folder; 0 if there is none.
func bytesAt(path string) (sum float64) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.Mode().IsRegular():
		return float64(info.Size())
	case info.IsDir():
		entries, _ := os.ReadDir(path)
		for _, e := range entries { // links in the Hugging Face cache
			if info, err := os.Stat(filepath.Join(path, e.Name())); err == nil && info.Mode().IsRegular() {
				sum += float64(info.Size())
			}
		}
	}
	return sum
}
