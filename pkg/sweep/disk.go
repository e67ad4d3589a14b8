package sweep

import (
	"path/filepath"
	"runtime"

	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// diskOf estimates the bytes that the unfinished runs of a sweep in dir will write: what each leaves
// behind, and in addition what jobs of them (0 = one per core) need while they run.
func diskOf(dir string, m sweepdir.Manifest, jobs int) float64 {
	var kept, while float64
	arms := map[int]train.Disk{}
	n := 0
	for _, e := range m.Runs {
		if sweepdir.StateOf(dir, e).Finished() {
			continue
		}
		need, known := arms[e.Arm]
		if !known {
			if cfg, m, err := frozenModel(e); err == nil { // otherwise the run itself reports it
				need = train.DiskOf(m, cfg)
			}
			arms[e.Arm] = need
		}
		need = need.Less(e.Path(dir))
		kept += need.Kept
		while = max(while, need.Peak-need.Kept)
		n++
	}
	if n == 0 {
		return 0
	}
	return kept + float64(Slots(jobs, runtime.GOMAXPROCS(0), n))*while
}

// checkDisk refuses a sweep whose runs don't fit on the disk.
func checkDisk(dir string, m sweepdir.Manifest, jobs int, check train.DiskCheck) error {
	if check == nil {
		return nil
	}
	return check(dir, diskOf(dir, m, jobs))
}

// CheckDisk refuses a study whose runs don't fit on the disk; jobs are those of [Options].
func (p *AssignmentPlan) CheckDisk(dir string, jobs int, check train.DiskCheck) error {
	if check == nil {
		return nil
	}
	return check(dir, p.disk(dir, jobs))
}

// disk is the sum over the parts of the study in dir.
func (p *AssignmentPlan) disk(dir string, jobs int) float64 {
	var sum float64
	for i, part := range p.Parts {
		sum += diskOf(filepath.Join(dir, p.Study.Parts[i].Name), part.Manifest, jobs)
	}
	return sum
}
