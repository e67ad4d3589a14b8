package sweep

import (
	"fmt"
	"path/filepath"
	"slices"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// sweepsIn are the folders with runs in a folder named by the user: the parts of a study,
// a sweep, or a single run. Anything else is a [config.ErrConfig].
func sweepsIn(dir string) ([]string, error) {
	dir = filepath.Clean(dir)
	switch {
	case sweepdir.IsStudy(dir):
		parts, err := sweepdir.StartedParts(dir)
		if err != nil {
			return nil, unreadable(err)
		}
		return parts, nil
	case sweepdir.IsSweep(dir), rundir.HasFiles(dir):
		return []string{dir}, nil
	}
	return nil, fmt.Errorf("%w: %s is not the folder of a run, a sweep or a study", config.ErrConfig, dir)
}

// entriesOf are the runs of a sweep, or the single run, in dir.
func entriesOf(dir string) ([]sweepdir.Entry, error) {
	if sweepdir.IsSweep(dir) {
		m, err := sweepdir.ReadManifest(dir)
		return m.Runs, err
	}
	file := filepath.Join(dir, rundir.ConfigFile)
	text, err := regular.Read(file, regular.MaxDocument)
	if err != nil {
		return nil, err
	}
	r, err := config.LoadText(file, text)
	if err != nil {
		return nil, err
	}
	hash := config.Hash(r.Config)
	return []sweepdir.Entry{{Seed: r.Config.Seed, Dir: ".", Hash: hash, Config: string(text)}}, nil
}

// EqualRun is one of several runs with the same configuration hash.
type EqualRun struct {
	Dir   string `json:"dir"`
	Seed  uint64 `json:"seed"`
	State string `json:"state"`
	// Weights is the SHA-256 of the final weights; empty without a result.
	Weights string `json:"weights_sha256"`
}

// EqualRuns are the runs of one configuration and seed.
type EqualRuns struct {
	Hash string     `json:"hash"`
	Runs []EqualRun `json:"runs"`
	// Identical is true if two or more have results, all with the same weights.
	Identical bool `json:"identical"`
}

// FindEqual lists the configurations that two or more runs of the folders have, in the order of their
// first run. The folders are those of runs, sweeps and studies. It changes nothing.
func FindEqual(dirs []string) ([]EqualRuns, error) {
	out := []EqualRuns{}
	seen := map[string]bool{}
	for _, dir := range dirs {
		sweeps, err := sweepsIn(dir)
		if err != nil {
			return nil, err
		}
		for _, from := range sweeps {
			entries, err := entriesOf(from)
			if err != nil {
				return nil, fmt.Errorf("read the runs of %s: %w", from, err)
			}
			for _, e := range entries {
				path := e.Path(from)
				if seen[path] {
					continue
				}
				seen[path] = true
				state := sweepdir.StateOf(from, e)
				run := EqualRun{Dir: path, Seed: e.Seed, State: state.State}
				if state.Finished() {
					run.Weights = state.Run.Result.WeightsSHA256
				}
				i := slices.IndexFunc(out, func(g EqualRuns) bool { return g.Hash == e.Hash })
				if i < 0 {
					i, out = len(out), append(out, EqualRuns{Hash: e.Hash})
				}
				out[i].Runs = append(out[i].Runs, run)
			}
		}
	}
	out = slices.DeleteFunc(out, func(g EqualRuns) bool { return len(g.Runs) < 2 })
	for i, g := range out {
		done := slices.DeleteFunc(slices.Clone(g.Runs), func(r EqualRun) bool { return r.Weights == "" })
		same := func(a, b EqualRun) bool { return a.Weights == b.Weights }
		out[i].Identical = len(done) > 1 && len(slices.CompactFunc(done, same)) == 1
	}
	return out, nil
}
