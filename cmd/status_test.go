package cmd

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// TestStatusOfStudy: parts that have started, parts that have not, and runs in
// every state that a folder can show without a process.
func TestStatusOfStudy(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := "my study" // moved: the command that made it says elsewhere
	expect.OK(t, os.Mkdir(dir, 0o755))
	now := time.Now()
	err := sweepdir.WriteStudy(dir, sweepdir.Study{Format: sweepdir.FormatVersion, Hash: "00000000", Name: "assignment", Title: "Assignment",
		Argv: []string{"grpo", "assignment", "--out", "elsewhere"}, Parts: []sweepdir.Part{{Name: "lr"}, {Name: "baseline"}}})
	expect.OK(t, err)
	req, err := sweep.AxesRequest([]sweep.AxisRequest{{Key: "lr", Values: []string{"1e-3", "3e-3"}}})
	expect.OK(t, err)
	p, err := sweep.NewPlan(req, sweep.PlanOptions{Command: "sweep", Seeds: []uint64{1, 2}})
	expect.OK(t, err)
	part := filepath.Join(dir, "lr")
	expect.OK(t, sweep.Prepare(part, p))
	write := func(run int, name, text string) {
		t.Helper()
		path := filepath.Join(p.Manifest.Runs[run].Path(part), name)
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		expect.OK(t, os.WriteFile(path, []byte(text), 0o666))
		expect.OK(t, os.Chtimes(path, now, now.Add(-90*time.Second)))
	}
	status := func(state, problem string) string {
		return `{"state":"` + state + `","step":20,"steps":200,"pid":7,"updated":"2026-01-02T03:04:05Z","validation_reward":0.4,"error":"` + problem + `"}`
	}
	write(0, rundir.StatusFile, status("interrupted", ""))
	write(1, rundir.StatusFile, status("failed", "no such file"))
	owner := `{"host":"n2","pid":7,"machine":"m2","job":"slurm 9_3","started":"2026-01-02T03:04:05Z"}`
	write(1, ".claims/1/owner.json", owner)
	write(1, ".claims/2/owner.json", owner)
	write(2, rundir.StatusFile, status("running", ""))
	write(3, ".claims/1/owner.json", owner)
	write(3, ".claims/1/heartbeat", ".")
	beat := filepath.Join(p.Manifest.Runs[3].Path(part), ".claims/1/heartbeat")
	expect.OK(t, os.Chtimes(beat, time.Now(), time.Now()))
	r, err := sweep.ReadStatus(dir, now, nil)
	expect.OK(t, err)
	var out strings.Builder
	expect.OK(t, writeStatus(&out, r))
	want := `part  run              state        step    validation  last update  attempts  running on
lr    lr=1e-3, seed 1  interrupted  20/200              1m30s ago
lr    lr=3e-3, seed 1  failed       20/200              1m30s ago    2
lr    lr=1e-3, seed 2  dead         20/200              1m30s ago
lr    lr=3e-3, seed 2  running      0/200               never        1         n2 (slurm 9_3)

0 of 4 runs finished (1 running, 1 interrupted, 1 failed, 1 dead); parts not started: baseline
lr=3e-3, seed 1: no such file
lr=1e-3, seed 2: its process 7 no longer exists (last seen 2026-01-02T03:04:05Z) and left no message: it was killed, or crashed; it reached step 20 of 200; its last checkpoint is after step 0
to continue: grpo assignment --out 'my study'
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if r.Finished || r.Kind != "study" || !r.InProgress() {
		t.Errorf("%+v", r)
	}

	// The page is written again while a run is in progress, here until its process is gone.
	s := &State{Out: io.Discard, Err: io.Discard}
	file := filepath.Join(t.TempDir(), "status.html")
	page := func() string {
		data, err := os.ReadFile(file)
		expect.OK(t, err)
		return string(data)
	}
	for _, prepared := range []string{filepath.Join(dir, sweepdir.StudyFile), filepath.Join(part, sweepdir.ManifestFile)} {
		expect.OK(t, os.Chtimes(prepared, now, now.Add(-time.Hour)))
	}
	looks := 0
	s.Now = func() time.Time {
		if looks++; looks == 6 {
			if !strings.Contains(page(), "http-equiv=\"refresh\"") {
				t.Error("the page of a run in progress does not load itself again")
			}
			expect.OK(t, os.Chtimes(beat, now, now.Add(-time.Hour)))
			write(3, rundir.StatusFile, status("interrupted", ""))
			expect.OK(t, os.RemoveAll(filepath.Dir(beat)))
		}
		return now
	}
	o := &statusOptions{dir: dir, html: file, every: time.Millisecond}
	last, err := followPage(t.Context(), s, o, r)
	if err != nil || last.InProgress() || strings.Contains(page(), "http-equiv=\"refresh\"") || !strings.Contains(page(), "No run is in progress") {
		t.Errorf("after %d looks: %v", looks, err)
	}

	// A signal ends it with a page that says so.
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := followPage(ctx, s, o, r); !errors.Is(err, errStopped) || !strings.Contains(page(), "was stopped") {
		t.Errorf("after a signal: %v", err)
	}
}
