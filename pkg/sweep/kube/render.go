package kube

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

const (
	// preparedDir is where a pod sees the ConfigMap.
	preparedDir = "/etc/grpo"
	// zippedManifest is the manifest in the ConfigMap, compressed: 1,000 runs take 3 MB, and 44 kB
	// with gzip.
	zippedManifest = sweepdir.ManifestFile + ".gz"
	// maxConfigMap is the API's limit of a ConfigMap's data, in bytes.
	maxConfigMap = 1 << 20
	// grace is the time in seconds from the signal to save until a pod is killed: enough for a long
	// step and a checkpoint. A pod that ends earlier does not use it up.
	grace = 300
	// retries is how often a run that failed is started again. Interruptions do not count.
	retries = 3
	// user and group of the pods; that of distroless images' "nonroot".
	user = 65532

	containerName, runsVolume, sweepVolume = "grpo", "runs", "sweep"
)

// Render returns the manifest of the Job name for these runs of the sweep m, by their index; request
// is the content of its sweep.yaml. s must have passed [Settings.Check], and there must be a run.
//
// The Job has an index for each of the runs and not for every run of the sweep: a finished run then
// costs no pod, and runs that were trained elsewhere need not be on the volume. The list is in the
// Job's arguments, because the API lets nobody change those of an existing Job, unlike a ConfigMap.
//
// Errors: [config.ErrConfig] if the sweep is too large for a ConfigMap.
func Render(s Settings, name string, request []byte, m sweepdir.Manifest, runs []int) ([]byte, error) {
	labels, err := s.labels(name)
	if err != nil {
		return nil, err
	}
	zipped, err := zip(m)
	if err != nil {
		return nil, fmt.Errorf("render the manifest of %s: %w", name, err)
	}
	if n := len(request) + len(zipped); n > maxConfigMap {
		return nil, fmt.Errorf("%w: the list of %s and its sweep.yaml take %d bytes, and a ConfigMap holds %d: "+
			"make several sweeps of it, each with some of the arms", config.ErrConfig,
			textutil.Count(len(m.Runs), "run"), n, maxConfigMap)
	}
	meta := metadata{Name: name, Namespace: s.Namespace, Labels: labels}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %d of %s of the sweep %s, written by \"grpo %s\"\n", len(runs),
		textutil.Count(len(m.Runs), "run"), m.Hash, m.Command)
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	for _, object := range []any{
		configMap{
			APIVersion: "v1", Kind: "ConfigMap", Metadata: meta,
			Data:       map[string]string{sweepdir.RequestFile: string(request)},
			BinaryData: map[string]string{zippedManifest: base64.StdEncoding.EncodeToString(zipped)},
		},
		job{
			APIVersion: "batch/v1", Kind: "Job", Metadata: meta,
			Spec: s.jobSpec(name, labels, runs),
		},
	} {
		if err := enc.Encode(object); err != nil {
			return nil, fmt.Errorf("render the manifest of %s: %w", name, err)
		}
	}
	err = enc.Close()
	return b.Bytes(), err
}

// zip compresses the manifest of a sweep, the same way each time.
func zip(m sweepdir.Manifest) ([]byte, error) {
	data, err := rundir.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(data)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// jobSpec says when a pod is replaced. The first rule that matches counts; a failure that none
// matches (exit code 1, killed for lack of memory) uses up one of the retries.
func (s Settings) jobSpec(name string, labels map[string]string, runs []int) jobSpec {
	onExit := func(action string, codes ...int) failureRule {
		return failureRule{Action: action, OnExitCodes: &exitCodes{containerName, "In", codes}}
	}
	spec := jobSpec{
		CompletionMode: "Indexed", Completions: len(runs), Parallelism: len(runs),
		BackoffLimitPerIndex: retries, MaxFailedIndexes: len(runs),
		// A pod is replaced when it has ended and not when it is asked to: a run's folder has one
		// writer.
		PodReplacementPolicy: "Failed",
		PodFailurePolicy: rules{"rules": {
			// Preempted, evicted, or its node is gone.
			{Action: "Ignore", OnPodConditions: []podCondition{{"DisruptionTarget", "True"}}},
			onExit("FailIndex", sweep.ExitUsage),
			onExit("Ignore", sweep.ExitInterrupted, sweep.ExitNothingSaved), // someone deleted the pod
		}},
		Template: podTemplate{metadata{Labels: labels}, s.podSpec(name, runs)},
	}
	if s.Parallelism > 0 {
		spec.Parallelism = min(s.Parallelism, len(runs))
	}
	if s.FailFast {
		spec.MaxFailedIndexes = 0
	}
	return spec
}

func (s Settings) podSpec(name string, runs []int) podSpec {
	cpus := strconv.Itoa(s.CPUs)
	// Limits equal to the requests make a pod the last to be evicted.
	need := map[string]string{"cpu": cpus}
	if s.Memory > 0 {
		need["memory"] = fmt.Sprintf("%dMi", (s.Memory+1<<20-1)>>20)
	}
	if s.GPUs > 0 {
		need["nvidia.com/gpu"] = strconv.Itoa(s.GPUs)
	}
	return podSpec{
		RestartPolicy: "Never", TerminationGracePeriodSeconds: grace, SecurityContext: nobody(),
		Containers: []container{{
			Name: containerName, Image: s.Image, Command: []string{"grpo"},
			Args: []string{
				"task", "--prepared", preparedDir, "--sweep", literal(path.Join(s.Mount, name)),
				"--runs", textutil.Ranges(runs), "--index", "$(JOB_COMPLETION_INDEX)", "--threads", cpus,
			},
			WorkingDir: s.Mount, // relative paths in a configuration are paths on the volume
			// A Job runs an index once at a time, so a claim of this Job's pod with the same index is void.
			// The UID distinguishes the Job from a deleted one whose pods may still be saving.
			Env: []variable{
				{Name: "JOB_UID", From: map[string]map[string]string{
					"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"},
				}},
				{Name: "GRPO_JOB", Value: name + "/$(JOB_UID)"}, {Name: "GOMAXPROCS", Value: cpus},
			},
			Resources: resources{need, need}, SecurityContext: unprivileged(),
			VolumeMounts: []mount{{runsVolume, s.Mount, false}, {sweepVolume, preparedDir, true}},
		}},
		Volumes: []volume{
			{Name: runsVolume, Claim: claim(s.Claim)}, {Name: sweepVolume, ConfigMap: map[string]string{"name": name}},
		},
	}
}

func claim(name string) map[string]string { return map[string]string{"claimName": name} }

// nobody and unprivileged are what the "restricted" policy of a namespace asks for. Where a volume
// supports it, its files belong to the pods' group.
func nobody() podSecurity {
	return podSecurity{
		RunAsNonRoot: true, RunAsUser: user, RunAsGroup: user, FSGroup: user,
		FSGroupChangePolicy: "OnRootMismatch", SeccompProfile: map[string]string{"type": "RuntimeDefault"},
	}
}

func unprivileged() *containerSecurity {
	return &containerSecurity{Capabilities: capabilities{[]string{"ALL"}}}
}

// literal escapes an argument, in which Kubernetes replaces $(NAME).
func literal(arg string) string { return strings.ReplaceAll(arg, "$", "$$") }
