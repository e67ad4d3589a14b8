package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
)

// filesImage is the image of the pod through which results are copied: it needs tar.
const filesImage = "busybox:1.37"

// Command is what the user can do, as lines for a shell.
type Command struct {
	Does  string
	Lines []string
}

// Job is a sweep in the local folder Dir, and the [Name] of its Job.
type Job struct{ Name, Dir string }

// Commands are the lines that start the jobs from the manifest in file ("": the output of the command
// before), watch them, copy their runs into the local folders, go on with the command after, and
// delete the jobs: first, if after is the same command, which makes the next ones. The runs stay on the
// volume. There must be a job.
func (s Settings) Commands(jobs []Job, before []string, file string, after []string) ([]Command, error) {
	overrides, err := s.filesPod()
	if err != nil {
		return nil, fmt.Errorf("write the pod that copies the runs: %w", err)
	}
	kubectl := func(args ...string) string {
		line := []string{"kubectl"}
		if s.Namespace != "" {
			line = append(line, "--namespace", s.Namespace)
		}
		return textutil.CommandLine(append(line, args...))
	}
	// Without --server-side kubectl keeps a copy of an object in an annotation, which holds only 256 KiB.
	start := kubectl("apply", "--server-side", "-f", cmp.Or(file, "-"))
	if file == "" {
		isJSON := func(arg string) bool { return arg == "--json" || strings.HasPrefix(arg, "--json=") }
		start = textutil.CommandLine(slices.DeleteFunc(slices.Clone(before), isJSON)) + " | " + start
	}
	files := jobs[0].Name + "-files"
	var names, selected, objects []string
	collect := []string{
		kubectl("run", files, "--image", filesImage, "--restart", "Never", "--overrides", overrides),
		kubectl("wait", "--for", "condition=Ready", "pod/"+files),
	}
	for _, j := range jobs {
		names = append(names, "job/"+j.Name)
		selected = append(selected, j.Name)
		objects = append(objects, "job/"+j.Name, "configmap/"+j.Name)
		// tar and not kubectl cp, which reads a colon in a path as the end of a pod's name.
		from := kubectl("exec", files, "--", "tar", "-cf", "-", "-C", path.Join(s.Mount, j.Name), sweepdir.RunsDir)
		collect = append(collect, from+" | "+textutil.CommandLine([]string{"tar", "-xof", "-", "-C", j.Dir}))
	}
	pods := "batch.kubernetes.io/job-name in (" + strings.Join(selected, ",") + ")"
	last := []Command{
		{"then", []string{textutil.CommandLine(after)}},
		// In the foreground kubectl waits for the pods to end.
		{"delete", []string{kubectl(append([]string{"delete", "--cascade", "foreground"}, objects...)...)}},
	}
	if slices.Equal(before, after) {
		slices.Reverse(last)
	}
	return append([]Command{
		{"start", []string{start}},
		{"watch", []string{
			kubectl(append([]string{"get"}, names...)...), kubectl("get", "pods", "-l", pods),
			kubectl("logs", "-l", pods, "--prefix", "--tail", "1", "--ignore-errors"),
		}},
		{"collect", append(collect, kubectl("delete", "pod", files, "--now"))},
	}, last...), nil
}

// filesPod is the specification of a pod that sees the volume and waits, as JSON.
func (s Settings) filesPod() (string, error) {
	need := map[string]string{"cpu": "100m", "memory": "64Mi"}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "spec": podSpec{
		RestartPolicy: "Never", SecurityContext: nobody(), TerminationGracePeriodSeconds: 1,
		Containers: []container{{
			Name: "files", Image: filesImage, Command: []string{"sleep", "86400"},
			Resources: resources{need, need}, SecurityContext: unprivileged(),
			VolumeMounts: []mount{{runsVolume, s.Mount, false}},
		}},
		Volumes: []volume{{Name: runsVolume, Claim: claim(s.Claim)}},
	}})
	if err != nil {
		return "", err
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return "", err
	}
	out, err := json.Marshal(object)
	return string(out), err
}
