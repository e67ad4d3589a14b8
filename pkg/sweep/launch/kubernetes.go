package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/kube"
	"grpo/pkg/sweepdir"
)

var kubernetesKind = Kind{
	Launcher: kubernetes{}, Name: "kubernetes", Manifest: true, Receipt: kubeReport{},
	Flags: []Flag{
		{"image", "launcher.kubernetes.image", "IMAGE", "Kubernetes: container image with grpo"},
		{"claim", "launcher.kubernetes.claim", "NAME", "Kubernetes: ReadWriteMany volume claim for the runs"},
		{"namespace", "launcher.kubernetes.namespace", "NAME", "Kubernetes: namespace"},
	},
}

// kubernetes writes the manifest of the missing runs, which the user applies with kubectl.
type kubernetes struct{ noJobs }

// kubeReport is what --json prints.
type kubeReport struct {
	Dir      string   `json:"dir"`
	Jobs     []string `json:"jobs"`
	Runs     int      `json:"runs"`
	File     string   `json:"file,omitempty"`     // of the manifest
	Manifest string   `json:"manifest,omitempty"` // without a file
}

// settings describe a Job for a sweep.
func (kubernetes) settings(p *sweep.Plan, failFast bool) (kube.Settings, error) {
	need := p.Needs(p.Manifest.Runs)
	out := kube.Settings{
		Kubernetes: p.Launcher.Kubernetes, CPUs: need.CPUs, Memory: need.Memory,
		Parallelism: p.Launcher.Parallelism, FailFast: failFast,
	}
	return out, out.Check()
}

// Check implements [Launcher].
func (k kubernetes) Check(_ context.Context, j *Job) error {
	if j.Study != nil {
		_, err := k.settings(j.Study.Parts[0], j.FailFast)
		return err
	}
	_, err := k.settings(j.Sweep.Plan, j.FailFast)
	return err
}

// Wait implements [Launcher]. No command stays.
func (kubernetes) Wait(context.Context, *Job) (bool, error) {
	return false, errors.New("runs on Kubernetes are not followed (kubectl shows them)")
}

// missing are the runs of a sweep for a Job, by their index.
type missing struct {
	*sweep.Located
	runs []int
}

// missing freezes the sweeps that can be trained now: all, or of a study whose learning rate is not
// known the first. Of runs with one configuration in several parts only the first is missing: a later
// command copies it.
func (kubernetes) missing(ctx context.Context, j *Job) (out []missing, err error) {
	if j.Study != nil {
		if err := j.Study.Prepare(); err != nil {
			return nil, err
		}
	}
	opts := j.elsewhere(Busy)
	taken := map[string]bool{} // hashes of configurations
	var noRate error
	for i := range j.parts() {
		if i == 1 && j.Study.Waits() {
			if first, err := j.open(0); err != nil || !first.Finished() {
				return out, err
			}
			noRate = j.chooseRateOfFolder()
		}
		if j.Study != nil && j.Study.PartWaits(i) {
			continue
		}
		p, err := j.part(i)
		if err != nil {
			return nil, err
		}
		found, err := p.Scan(ctx, opts)
		if next := p.Manifest.NextLook(); err == nil && next >= 0 {
			if _, err = p.Due(j.Note); err == nil && p.Manifest.NextLook() != next {
				found, err = p.Scan(ctx, opts)
			}
		}
		if err != nil {
			return nil, err
		}
		if next := p.Manifest.NextLook(); next >= 0 {
			j.Note(fmt.Sprintf("these are runs of the first %d seeds: when they have ended and are copied back, and the job is "+
				"deleted, the same command takes the look and goes on", p.Manifest.Looks[next].Seeds))
		}
		m, busy := missing{Located: p}, 0
		for _, e := range found.Waiting {
			if sweepdir.StateOf(p.Dir, e).State == rundir.StateRunning {
				busy++
			} else if !taken[e.Hash] {
				m.runs = append(m.runs, e.Index)
			}
			taken[e.Hash] = true
		}
		if busy > 0 {
			j.Note(fmt.Sprintf("%s: another process is training %s, which it keeps", p.Dir, textutil.Count(busy, "run")))
		}
		if len(m.runs) > 0 {
			out = append(out, m)
		}
		opts.StudySweeps = append(opts.StudySweeps, p.Dir)
	}
	if noRate != nil && len(out) > 0 {
		j.Note(noRate.Error())
		noRate = nil
	}
	return out, noRate
}

// Submit implements [Launcher]: it writes the manifest, and the commands that apply it.
func (k kubernetes) Submit(ctx context.Context, j *Job) (*Receipt, error) {
	sweeps, err := k.missing(ctx, j)
	if err != nil {
		return nil, err
	}
	if len(sweeps) == 0 {
		return &Receipt{}, k.allFinished(j)
	}
	what := kubeReport{Dir: j.Dir, File: j.Manifest}
	var settings kube.Settings // of the last sweep; all have the same claim and namespace
	var jobs []kube.Job
	var text bytes.Buffer
	for i, p := range sweeps {
		path, err := filepath.Abs(p.Dir) // the name of the current folder, "."
		if err != nil {
			return nil, fmt.Errorf("find the folder %s: %w", p.Dir, err)
		}
		if settings, err = k.settings(p.Plan, j.FailFast); err != nil {
			return nil, err
		}
		name := kube.Name(path, p.Manifest.Hash)
		manifest, err := kube.Render(settings, name, p.Request, p.Manifest, p.runs)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(manifest)
		jobs, what.Jobs = append(jobs, kube.Job{Name: name, Dir: p.Dir}), append(what.Jobs, name)
		what.Runs += len(p.runs)
	}
	var aside strings.Builder
	out := &Receipt{Pending: true, Text: text.String()}
	if what.File != "" {
		if err := rundir.WriteFileAtomic(what.File, text.Bytes()); err != nil {
			return nil, err
		}
		textutil.Fprintf(&aside, "wrote %s\n", filepath.ToSlash(what.File))
		out.Text = ""
	}
	what.Manifest = out.Text
	kind := "sweep"
	if j.Study != nil {
		kind = "study"
	}
	again := sweep.ContinueArgs(kind, j.Args, j.Dir) // without --fresh, which would start over in another folder
	after := again
	if j.Study == nil && sweeps[0].Manifest.NextLook() < 0 {
		after = []string{j.Args[0], "report", j.Dir}
	}
	commands, err := settings.Commands(jobs, again, what.File, after)
	if err != nil {
		return nil, err
	}
	textutil.Fprintf(&aside, "%s to train, frozen in %s\n", textutil.Count(what.Runs, "run"), j.Dir)
	for _, c := range commands {
		textutil.Fprintf(&aside, "%s:\n", c.Does)
		for _, line := range c.Lines {
			textutil.Fprintf(&aside, "  %s\n", line)
		}
	}
	out.JSON, out.Aside = what, aside.String()
	return out, nil
}

// allFinished returns an error if no run is missing, but some have no result: another process is
// training them, or they can't be trained.
func (kubernetes) allFinished(j *Job) error {
	for i := range j.parts() {
		sw, err := j.open(i)
		if err != nil {
			return err
		}
		if sw != nil && !sw.Finished() {
			return fmt.Errorf("write a manifest for %s: no run is left for it, but some have no result (grpo status %s)",
				sw.Dir, textutil.CommandLine([]string{sw.Dir}))
		}
	}
	return nil
}
