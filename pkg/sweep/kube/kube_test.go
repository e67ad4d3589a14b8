package kube

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

var update = flag.Bool("update", false, "write the golden files")

// plan is a sweep of two learning rates with these seeds.
func plan(t *testing.T, seeds ...uint64) *sweep.Plan {
	t.Helper()
	req, err := sweep.AxesRequest([]sweep.AxisRequest{{Key: "lr", From: "--values", Values: []string{"1e-3", "3e-3"}}})
	expect.OK(t, err)
	p, err := sweep.NewPlan(req, sweep.PlanOptions{Command: "sweep", Path: "smoke", Seeds: seeds, Argv: []string{"grpo"}})
	expect.OK(t, err)
	return p
}

func settings() Settings {
	return Settings{
		Kubernetes: config.Kubernetes{
			Image: "registry.example/grpo:1.2", Namespace: "ml", Claim: "runs", Mount: "/grpo",
			Labels: []string{"team=rl", "example.com/cost-center=42"}, GPUs: 1,
		},
		CPUs: 2, Memory: 3<<30 + 1, Parallelism: 2,
	}
}

// decode reads the two documents of a manifest.
func decode(t interface{ Fatal(...any) }, text []byte) (c configMap, j job) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	err := errors.Join(dec.Decode(&c), dec.Decode(&j))
	if end := dec.Decode(new(any)); err != nil || !errors.Is(end, io.EOF) {
		t.Fatal(err, end, string(text))
	}
	return c, j
}

func TestRender(t *testing.T) {
	p := plan(t, 1, 2)
	got, err := Render(settings(), "lr-1a2b3c4d", p.Request, p.Manifest, []int{0, 2, 3})
	expect.OK(t, err)
	// The compressed bytes may change with a release of Go.
	got = regexp.MustCompile(`(manifest.json.gz: ).*`).ReplaceAll(got, []byte("${1}GZIP"))
	golden := filepath.Join("testdata", "manifest.yaml")
	if *update {
		expect.OK(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, got (-update writes it):\n%s", err, got)
	}
}

// Without limits: all pods at a time, and no memory.
func TestRenderDefaults(t *testing.T) {
	p := plan(t, 1)
	s := Settings{Kubernetes: config.Kubernetes{Image: "grpo", Claim: "c", Mount: "/grpo"}, CPUs: 1, FailFast: true}
	text, err := Render(s, "lr-1a2b3c4d", p.Request, p.Manifest, []int{0, 1})
	expect.OK(t, err)
	_, j := decode(t, text)
	pod := j.Spec.Template.Spec.Containers[0]
	if j.Spec.Parallelism != 2 || j.Spec.MaxFailedIndexes != 0 || len(pod.Resources.Limits) != 1 || j.Metadata.Namespace != "" {
		t.Errorf("%s", text)
	}
}

// Every string survives YAML, and Kubernetes does not replace variables in a path.
func TestRenderProperties(t *testing.T) {
	p := plan(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		const odd = "aé01:#-'\"\\ $(){}[]&*!|>%@`,?~=x"
		text := rapid.StringOf(rapid.RuneFrom([]rune(odd))).Draw
		s := Settings{CPUs: 1, Kubernetes: config.Kubernetes{
			Image: text(t, "image"), Namespace: text(t, "namespace"), Claim: text(t, "claim"), Mount: "/" + text(t, "mount"),
			Labels: []string{"k=true", "l=1e3", "m=0x1F", "n=", "o=on"},
		}}
		request := "# written by grpo\n" + rapid.StringOf(rapid.RuneFrom([]rune(odd+"\n\t"))).Draw(t, "request")
		out, err := Render(s, "n-1", []byte(request), p.Manifest, []int{1})
		expect.OK(t, err)
		c, j := decode(t, out)
		pod := j.Spec.Template.Spec
		if got := pod.Containers[0].Image; got != s.Image {
			t.Errorf("image %q is %q", s.Image, got)
		}
		if got := pod.Volumes[0].Claim["claimName"]; got != s.Claim {
			t.Errorf("claim %q is %q", s.Claim, got)
		}
		if j.Metadata.Namespace != s.Namespace || c.Metadata.Namespace != s.Namespace {
			t.Errorf("namespace %q is %q", s.Namespace, j.Metadata.Namespace)
		}
		if got := pod.Containers[0].VolumeMounts[0].MountPath; got != s.Mount {
			t.Errorf("mount %q is %q", s.Mount, got)
		}
		if got := c.Data["sweep.yaml"]; got != request {
			t.Errorf("request %q is %q", request, got)
		}
		for _, key := range []string{"k", "l", "m", "n", "o"} {
			if want, _ := s.labels("n-1"); j.Metadata.Labels[key] != want[key] {
				t.Errorf("label %s is %q", key, j.Metadata.Labels[key])
			}
		}
		if arg := pod.Containers[0].Args[4]; strings.Contains(strings.ReplaceAll(arg, "$$", ""), "$") {
			t.Errorf("the argument %q has a variable", arg)
		}
	})
}

// A pod's name is that of the Job, the index and five more characters, and must be a DNS label.
func TestNameProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir := filepath.Join(rapid.String().Draw(t, "parent"), rapid.String().Draw(t, "folder"))
		hash := fmt.Sprintf("%08x", rapid.Uint32().Draw(t, "hash"))
		name := Name(dir, hash)
		if pod := name + "-99999"; !dnsLabel().MatchString(pod) || !strings.HasSuffix(name, "-"+hash) {
			t.Errorf("%q: %q", dir, name)
		}
	})
	for dir, want := range map[string]string{
		"results/sweep-1a2b3c4d": "sweep-1a2b3c4d", "/x/My Rates_2": "my-rates-2-1a2b3c4d", "..": "sweep-1a2b3c4d",
		"é": "sweep-1a2b3c4d", strings.Repeat("a", 39) + "-b": strings.Repeat("a", 39) + "-1a2b3c4d",
	} {
		if got := Name(dir, "1a2b3c4d"); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	expect.OK(t, settings().Check())
	cases := map[string]func(*Settings){
		`launcher.kubernetes.image: give the image`:                        func(s *Settings) { s.Image = "" },
		`launcher.kubernetes.image: "a b" is not the name of an image`:     func(s *Settings) { s.Image = "a b" },
		`launcher.kubernetes.claim: give the persistent volume claim`:      func(s *Settings) { s.Claim = "" },
		`launcher.kubernetes.claim: "Runs" is not the name of a claim`:     func(s *Settings) { s.Claim = "Runs" },
		`launcher.kubernetes.namespace: "a.b" is not the name`:             func(s *Settings) { s.Namespace = "a.b" },
		`launcher.kubernetes.mount: "grpo" must be an absolute path`:       func(s *Settings) { s.Mount = "grpo" },
		`launcher.kubernetes.mount: "/" must be an absolute path below /`:  func(s *Settings) { s.Mount = "/" },
		`launcher.kubernetes.mount: "/a/../b" must be`:                     func(s *Settings) { s.Mount = "/a/../b" },
		`launcher.kubernetes.mount: "/etc/grpo" is in a folder of the sys`: func(s *Settings) { s.Mount = "/etc/grpo" },
		`launcher.kubernetes.labels: "a" is not a label`:                   func(s *Settings) { s.Labels = []string{"a"} },
		`launcher.kubernetes.labels: "a=b c" is not`:                       func(s *Settings) { s.Labels = []string{"x=y", "a=b c"} },
		`launcher.kubernetes.labels: "/a=b" is not`:                        func(s *Settings) { s.Labels = []string{"/a=b"} },
	}
	for want, change := range cases {
		s := settings()
		change(&s)
		if err := s.Check(); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	p := plan(t, 1)
	_, err := Render(settings(), "n", bytes.Repeat([]byte("x"), maxConfigMap), p.Manifest, []int{0})
	if !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "a ConfigMap holds 1048576: make several sweeps") {
		t.Error(err)
	}
}

// RunAt finds each run of a list.
func TestRunsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.MapOfN(rapid.IntRange(0, 60), rapid.Just(true), 1, -1).Draw(t, "runs")
		runs := slices.Sorted(maps.Keys(set))
		list := textutil.Ranges(runs)
		for i, want := range runs {
			if got, err := RunAt(list, i); got != want || err != nil {
				t.Fatalf("%s: place %d is %d, %v, want %d", list, i, got, err, want)
			}
		}
		if _, err := RunAt(list, len(runs)); err == nil {
			t.Fatalf("%s has a place %d", list, len(runs))
		}
	})
	for _, list := range []string{"", "a", "1,,2", "3-1", "-1", "1-2-3", "1, 2"} {
		if got, err := RunAt(list, 1); err == nil {
			t.Errorf("%q: %d", list, got)
		}
	}
}

// configMapOf writes the files of a manifest's ConfigMap as a pod sees them: as links.
func configMapOf(t *testing.T, p *sweep.Plan) string {
	t.Helper()
	text, err := Render(settings(), "n", p.Request, p.Manifest, []int{0})
	expect.OK(t, err)
	c, _ := decode(t, text)
	zipped, err := base64.StdEncoding.DecodeString(c.BinaryData[zippedManifest])
	expect.OK(t, err)
	from := t.TempDir()
	for name, data := range map[string][]byte{"sweep.yaml": []byte(c.Data["sweep.yaml"]), zippedManifest: zipped} {
		err := errors.Join(os.MkdirAll(filepath.Join(from, "..data"), 0o755),
			os.WriteFile(filepath.Join(from, "..data", name), data, 0o644),
			os.Symlink(filepath.Join("..data", name), filepath.Join(from, name)))
		expect.OK(t, err)
	}
	return from
}

func TestUnpack(t *testing.T) {
	p := plan(t, 1, 2)
	from, dir := configMapOf(t, p), filepath.Join(t.TempDir(), "grpo", "n")
	const pods = 8
	errs := make(chan error)
	for range pods {
		go func() { errs <- Unpack(t.Context(), from, dir) }()
	}
	for range pods {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	local := t.TempDir()
	expect.OK(t, sweep.Prepare(local, p))
	for _, name := range []string{"sweep.yaml", "manifest.json"} {
		got, err1 := os.ReadFile(filepath.Join(dir, name))
		want, err2 := os.ReadFile(filepath.Join(local, name))
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, got\n%s", name, err, got)
		}
	}
	for want, other := range map[string]*sweep.Plan{
		"holds another sweep": plan(t, 3), "holds the same sweep with its runs in another order": plan(t, 2, 1),
	} {
		if err := Unpack(t.Context(), configMapOf(t, other), dir); !errors.Is(err, config.ErrConfig) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	expect.OK(t, os.WriteFile(filepath.Join(from, "..data", zippedManifest), []byte("no gzip"), 0o644))
	for _, from := range []string{from, t.TempDir()} {
		if err := Unpack(t.Context(), from, dir); !errors.Is(err, config.ErrConfig) ||
			!strings.Contains(err.Error(), "read the prepared sweep: ") {
			t.Error(err)
		}
	}
}

// A pod takes over the decisions at planned looks that were made where its manifest was written.
func TestUnpackLooks(t *testing.T) {
	p := plan(t, 1, 2, 3, 4)
	p.Manifest.Looks = []sweepdir.Look{{Seeds: 2, Level: .025}, {Seeds: 4, Level: .025}}
	dir := filepath.Join(t.TempDir(), "n")
	expect.OK(t, Unpack(t.Context(), configMapOf(t, p), dir))
	p.Manifest.Looks = slices.Clone(p.Manifest.Looks)
	p.Manifest.Looks[0].Taken = &sweepdir.Decision{GoOn: []int{0}}
	for range 2 {
		expect.OK(t, Unpack(t.Context(), configMapOf(t, p), dir))
	}
	m, err := sweepdir.ReadManifest(dir)
	if expect.OK(t, err); m.LooksTaken() != 1 {
		t.Errorf("looks %+v", m.Looks)
	}
}

func TestCommands(t *testing.T) {
	s := settings()
	jobs := []Job{{"lr-1a2b3c4d", "/home/u/my runs"}, {"b-00000000", "b"}}
	got, err := s.Commands(jobs, nil, "lr.yaml", []string{"grpo", "report", "/home/u/my runs"})
	expect.OK(t, err)
	var b strings.Builder
	for _, c := range got {
		fmt.Fprintf(&b, "%s: %s\n", c.Does, strings.Join(c.Lines, "\n"))
	}
	again := []string{"grpo", "ablate", "a b", "--json"}
	piped, err := s.Commands(jobs, again, "", again)
	if want := "grpo ablate 'a b' | kubectl --namespace ml apply --server-side -f -"; err != nil || piped[0].Lines[0] != want {
		t.Errorf("%v, %s", err, piped[0].Lines[0])
	}
	// The next jobs of a sweep have the names of these.
	if piped[3].Does != "delete" || piped[4].Does != "then" {
		t.Errorf("%v", piped[3:])
	}
	for _, want := range []string{
		"start: kubectl --namespace ml apply --server-side -f lr.yaml\n",
		"watch: kubectl --namespace ml get job/lr-1a2b3c4d job/b-00000000\n",
		"kubectl --namespace ml get pods -l 'batch.kubernetes.io/job-name in (lr-1a2b3c4d,b-00000000)'\n",
		`--overrides '{"apiVersion":"v1","spec":{`, `"persistentVolumeClaim":{"claimName":"runs"}`,
		"\nkubectl --namespace ml exec lr-1a2b3c4d-files -- tar -cf - -C /grpo/lr-1a2b3c4d runs | tar -xof - -C '/home/u/my runs'\n",
		"\nkubectl --namespace ml exec lr-1a2b3c4d-files -- tar -cf - -C /grpo/b-00000000 runs | tar -xof - -C b\n",
		"then: grpo report '/home/u/my runs'\n",
		"delete: kubectl --namespace ml delete --cascade foreground job/lr-1a2b3c4d configmap/lr-1a2b3c4d ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}
