package kubetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "kubetest-")
	if err == nil {
		program = filepath.Join(dir, "grpo")
		build := exec.Command("go", "build", "-o", program, ".")
		build.Dir, build.Stderr = filepath.Join("..", ".."), os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build grpo:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// render runs `grpo sweep` with these settings of launcher.kubernetes and flags. Its output is the
// manifest; said are the commands.
func render(t *testing.T, dir string, settings map[string]string, flags ...string) (c corev1.ConfigMap, j batchv1.Job, said string) {
	t.Helper()
	args := []string{"sweep", "lr", "--values", "1e-3,3e-3", "--seeds", "2", "-c", "smoke", "--launcher", "kubernetes", "--out", dir}
	for key, value := range settings {
		args = append(args, "--set", "launcher.kubernetes."+key+"="+value)
	}
	cmd := exec.Command(program, append(args, flags...)...)
	cmd.Dir = t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	docs := strings.Split(stdout.String(), "\n---\n")
	if len(docs) != 2 {
		t.Fatalf("%d documents", len(docs))
	}
	for i, into := range []any{&c, &j} {
		if err := yaml.UnmarshalStrict([]byte(docs[i]), into, yaml.DisallowUnknownFields); err != nil {
			t.Fatalf("document %d: %v", i+1, err)
		}
	}
	return c, j, stderr.String()
}

// Every value has the type and the value that the API reads, however YAML 1.1 would read it as it is.
func TestSettings(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"words":   {"image": "registry.example:5000/team/grpo@sha256:0123", "claim": "runs", "namespace": "ml", "gpus": "2"},
		"numbers": {"image": "0x1F", "claim": "1e3", "namespace": "123", "mount": "/1", "labels": "[a=1_000, b=0o7, c=1e3, d=1.5]"},
		"keys":    {"image": "1:30", "claim": "null", "namespace": "y", "labels": "[y=yes, n=no, x/true=True, null=on, e=]"},
		"dates":   {"image": "~", "claim": "2026-01-01", "labels": "[day=2026-01-01]"},
	} {
		t.Run(name, func(t *testing.T) {
			c, j, _ := render(t, "s", settings)
			pod := j.Spec.Template.Spec
			main := pod.Containers[0]
			for what, got := range map[string]string{
				"image": main.Image, "claim": pod.Volumes[0].PersistentVolumeClaim.ClaimName, "namespace": j.Namespace,
			} {
				if got != settings[what] {
					t.Errorf("%s is %q, want %q", what, got, settings[what])
				}
			}
			if want, ok := settings["mount"]; ok && (main.VolumeMounts[0].MountPath != want || main.WorkingDir != want) {
				t.Errorf("mount %q, folder %q, want %q", main.VolumeMounts[0].MountPath, main.WorkingDir, want)
			}
			for l := range strings.SplitSeq(strings.Trim(settings["labels"], "[]"), ", ") {
				key, value, _ := strings.Cut(l, "=")
				for _, in := range []map[string]string{c.Labels, j.Labels, j.Spec.Template.Labels} {
					if got, ok := in[key]; key != "" && (!ok || got != value) {
						t.Errorf("label %s is %q, want %q, in %v", key, got, value, in)
					}
				}
			}
			if gpus := main.Resources.Limits["nvidia.com/gpu"]; settings["gpus"] != "" && gpus.String() != settings["gpus"] {
				t.Errorf("%s GPUs", gpus.String())
			}
			if c.Name != j.Name || c.Kind != "ConfigMap" || c.APIVersion != "v1" || j.Kind != "Job" || j.APIVersion != "batch/v1" ||
				len(c.Data["sweep.yaml"]) == 0 || len(c.BinaryData["manifest.json.gz"]) == 0 {
				t.Errorf("%s %s %s", c.Name, j.Name, c.Kind)
			}
		})
	}
}

// The fields that make the Job safe to interrupt mean what the API's constants mean.
func TestJob(t *testing.T) {
	_, j, said := render(t, "s", map[string]string{"image": "i", "claim": "c"}, "--cpus", "3", "--memory", "1500M",
		"--parallelism", "2", "--fail-fast")
	s := j.Spec
	if *s.CompletionMode != batchv1.IndexedCompletion || *s.Completions != 4 || *s.Parallelism != 2 ||
		*s.BackoffLimitPerIndex != 3 || *s.MaxFailedIndexes != 0 || *s.PodReplacementPolicy != batchv1.Failed {
		t.Errorf("%+v", s)
	}
	rules := s.PodFailurePolicy.Rules
	main := s.Template.Spec.Containers[0]
	on := rules[0].OnPodConditions[0]
	if rules[0].Action != batchv1.PodFailurePolicyActionIgnore || on.Type != corev1.DisruptionTarget || on.Status != corev1.ConditionTrue {
		t.Errorf("%+v", rules[0])
	}
	for i, want := range map[int]struct {
		action batchv1.PodFailurePolicyAction
		codes  []int32
	}{1: {batchv1.PodFailurePolicyActionFailIndex, []int32{2}}, 2: {batchv1.PodFailurePolicyActionIgnore, []int32{75, 130}}} {
		r := rules[i]
		if r.Action != want.action || r.OnExitCodes.Operator != batchv1.PodFailurePolicyOnExitCodesOpIn ||
			*r.OnExitCodes.ContainerName != main.Name || !slices.Equal(r.OnExitCodes.Values, want.codes) {
			t.Errorf("%+v", r)
		}
	}
	if cpu, memory := main.Resources.Requests.Cpu(), main.Resources.Requests.Memory(); cpu.Value() != 3 || memory.Value() != 1500<<20 {
		t.Errorf("%s %s", cpu, memory)
	}
	if s.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Error(s.Template.Spec.RestartPolicy)
	}
	uid := main.Env[0].ValueFrom.FieldRef.FieldPath
	if want := fmt.Sprintf("metadata.labels['%s']", batchv1.ControllerUidLabel); uid != want {
		t.Errorf("%s, want %s", uid, want)
	}

	// The pod that copies the results.
	_, after, ok := strings.Cut(said, "--overrides '")
	text, _, ok2 := strings.Cut(after, "'\n")
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &pod, yaml.DisallowUnknownFields); err != nil || !ok || !ok2 ||
		pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "c" {
		t.Errorf("%v: %s", err, said)
	}
}
