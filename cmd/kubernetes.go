package cmd

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

	"grpo/internal/textutil"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/kube"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
)

// isKubernetes says whether the runs of a plan are trained on Kubernetes.
func isKubernetes(p *sweep.Plan) bool { return p.Launcher.Type == "kubernetes" }

// kubeSettings are the settings of a Job for a sweep.
func kubeSettings(p *sweep.Plan, failFast bool) (kube.Settings, error) {
	need := p.Needs(p.Manifest.Runs)
	out := kube.Settings{
		Kubernetes: p.Launcher.Kubernetes, CPUs: need.CPUs, Memory: need.Memory,
		Parallelism: p.Launcher.Parallelism, FailFast: failFast,
	}
	return out, out.Check()
}

// kubeOptions are the options of sweeps that are not trained here.
func kubeOptions(s *State) sweep.Options {
	return sweep.Options{Version: version, Observer: sweep.Notes(noteTo(s)), Now: s.Now, Slurm: slurm.Commands}
}

// renderAssignment writes the manifest of those parts of a study that can be trained now. It reports
// true if no run is missing.
func renderAssignment(
	ctx context.Context, s *State, o *assignmentOptions, plan *sweep.AssignmentPlan, dir string,
) (bool, error) {
	if _, err := kubeSettings(plan.Parts[0], o.failFast); err != nil { // before a file is written
		return false, err
	}
	if err := plan.Prepare(dir, 0); err != nil { // 0: the memory is another machine's
		return false, err
	}
	best := func() (rate, why string, err error) {
		sw, err := sweepdir.OpenPart(dir, plan.Study.Parts[0])
		if err != nil {
			return "", "", err
		}
		analysis, _, err := report.WriteSweep(sw.Dir, sw, report.Output{})
		if err != nil {
			return "", "", err
		}
		return analysis.BestValue(sweep.RateKey)
	}
	for {
		parts, err := plan.Ready(dir, sweep.StudyOptions{Options: kubeOptions(s), Best: best})
		if err != nil {
			return false, err
		}
		finished, err := render(ctx, s, &o.sweepFlags, dir, parts, s.Args)
		if err != nil || !finished || len(parts) == len(plan.Parts) {
			return finished, err
		}
		// The runs of the first part were copied from another study, so the others are ready.
	}
}

// kubeReport is what --json prints.
type kubeReport struct {
	Dir      string   `json:"dir"`
	Jobs     []string `json:"jobs"`
	Runs     int      `json:"runs"`
	File     string   `json:"file,omitempty"`     // of the manifest
	Manifest string   `json:"manifest,omitempty"` // without a file
}

// render freezes sweeps, writes the manifest of their missing runs, and prints what to type next;
// after is the command when the runs are collected. dir is the folder of the sweep or the study. It
// reports true if no run is missing.
func render(
	ctx context.Context, s *State, o *sweepFlags, dir string, sweeps []*sweep.Located, after []string,
) (finished bool, err error) {
	for _, l := range sweeps {
		if _, err := kubeSettings(l.Plan, o.failFast); err != nil {
			return false, err
		}
	}
	pending, err := sweep.Freeze(ctx, sweeps, kubeOptions(s))
	if err != nil {
		return false, err
	}
	if len(pending) == 0 {
		return true, allFinished(sweeps)
	}
	what := kubeReport{Dir: dir, File: o.launcher.manifest}
	var settings kube.Settings // of the last sweep: the claim and the namespace are those of all
	var jobs []kube.Job
	var text bytes.Buffer
	for i, p := range pending {
		path, err := filepath.Abs(p.Dir) // the name of the current folder, "."
		if err != nil {
			return false, fmt.Errorf("find the folder %s: %w", p.Dir, err)
		}
		if settings, err = kubeSettings(p.Plan, o.failFast); err != nil {
			return false, err
		}
		name := kube.Name(path, p.Manifest.Hash)
		manifest, err := kube.Render(settings, name, p.Request, p.Manifest, p.Runs)
		if err != nil {
			return false, err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(manifest)
		jobs, what.Jobs = append(jobs, kube.Job{Name: name, Dir: p.Dir}), append(what.Jobs, name)
		what.Runs += len(p.Runs)
	}
	if err := writeManifest(s, o, what, text.Bytes()); err != nil || o.out.quiet {
		return false, err
	}
	commands, err := settings.Commands(jobs, s.Args, what.File, after)
	if err != nil {
		return false, err
	}
	textutil.Fprintf(s.Err, "%s to train, frozen in %s\n", textutil.Count(what.Runs, "run"), dir)
	for _, c := range commands {
		textutil.Fprintf(s.Err, "%s:\n", c.Does)
		for _, line := range c.Lines {
			textutil.Fprintf(s.Err, "  %s\n", line)
		}
	}
	return false, nil
}

// allFinished returns an error if a sweep of which no run is missing is not finished: another process
// is training the rest, or a run can't be trained.
func allFinished(sweeps []*sweep.Located) error {
	for _, l := range sweeps {
		sw, err := sweepdir.Open(l.Dir)
		if err != nil {
			return err
		}
		if !sw.Finished() {
			return fmt.Errorf("write a manifest for %s: no run is left for it, but some have no result (grpo status %s)",
				l.Dir, textutil.CommandLine([]string{l.Dir}))
		}
	}
	return nil
}

// writeManifest writes the manifest to its file or to standard output.
func writeManifest(s *State, o *sweepFlags, what kubeReport, text []byte) error {
	if what.File != "" {
		if err := rundir.WriteFileAtomic(what.File, text); err != nil {
			return err
		}
		if !o.out.quiet && !o.out.json {
			wrote(s, what.File)
		}
	}
	switch {
	case o.out.json && what.File == "":
		what.Manifest = string(text)
		fallthrough
	case o.out.json:
		return printJSON(s.Out, what)
	case what.File == "":
		_, err := s.Out.Write(text)
		return err
	}
	return nil
}
