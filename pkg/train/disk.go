package train

import (
	"os"
	"path/filepath"

	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// DiskCheck accepts or rejects the bytes that a command is going to write below a folder; its error
// ends the command before any file is written. A nil check accepts everything.
type DiskCheck func(dir string, bytes float64) error

func (f DiskCheck) pass(dir string, bytes float64) error {
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
func DiskOf(cfg config.Config) Disk {
	const logs, tokenizer = 2 << 20, 32 << 20
	a, one := cfg.Algorithm, sizeOf(cfg.Model, cfg.Train.LoRA).ParamBytes()
	real := isDecoder(cfg.Model)
	best, checkpoint := one, 3*one // the weights and two moments
	if real {
		best += tokenizer
	}
	if a.Beta != 0 && (!real || a.RefModelSyncSteps > 0) {
		checkpoint += one
	}
	if cfg.Rollout.ResampleEveryNSteps > 1 {
		checkpoint += one
	}
	if a.Type == "ppo" {
		checkpoint += 3 * one
	}
	all := float64(max(1, cfg.Output.KeepCheckpoints)) * checkpoint
	// A file is replaced only when the new one is complete.
	d := Disk{Peak: all + best + checkpoint + best + logs, Kept: all + best + logs}
	if cfg.Output.Keep == "best" {
		d.Kept = best + logs
	}
	return d
}

// Less returns what the run in dir still needs: without the space of its checkpoints there.
func (d Disk) Less(dir string) Disk {
	var used float64
	for _, folder := range []string{"", bestFolder} {
		entries, _ := os.ReadDir(filepath.Join(dir, rundir.CheckpointDir, folder)) // none yet
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				used += float64(info.Size())
			}
		}
	}
	return Disk{max(0, d.Peak-used), max(0, d.Kept-used)}
}
