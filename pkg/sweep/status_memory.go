package sweep

import (
	"path/filepath"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// Advise sets the advice for the first run whose process may have been killed for lack of memory;
// available bytes, 0 = unknown. It reads the run's problems and its model, which may take seconds.
func (s *Status) Advise(available int64) {
	for _, r := range s.Runs {
		if r.State != sweepdir.Dead {
			continue
		}
		run, err := rundir.Peek(r.Dir)
		if err != nil || !run.MayLackMemory() {
			continue
		}
		if s.Advice = adviceFor(r.Dir, available); s.Advice != "" {
			return
		}
	}
}

// adviceFor is empty for a run whose configuration or inputs can't be read, which the run itself reports.
func adviceFor(dir string, available int64) string {
	path := filepath.Join(dir, rundir.ConfigFile)
	text, err := regular.Read(path, regular.MaxDocument)
	if err != nil {
		return ""
	}
	loaded, err := config.LoadText(path, text)
	if err != nil {
		return ""
	}
	p, err := train.ProblemsOf(loaded.Config)
	if err != nil {
		return ""
	}
	m, err := policy.Of(loaded.Config)
	if err != nil {
		return ""
	}
	need, err := train.MemoryOf(m, loaded.Config, p, 1)
	if err != nil {
		return ""
	}
	return train.AfterKill(m, loaded.Config, need, available)
}
