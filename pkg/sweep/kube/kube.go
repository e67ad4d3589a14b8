// Package kube renders a sweep as a manifest for Kubernetes: a ConfigMap with the frozen sweep and
// one Indexed Job whose pods run `grpo task`. It needs no client library and talks to no cluster;
// kubectl applies the manifest.
package kube

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"grpo/internal/pattern"
	"grpo/internal/textutil"
	"grpo/pkg/config"
)

// Settings describe the pods of a Job.
type Settings struct {
	config.Kubernetes
	// CPUs and Memory (in bytes; 0 = no request and no limit) are for one pod.
	CPUs   int
	Memory int64
	// Parallelism is the number of pods at a time; 0 = all.
	Parallelism int
	// FailFast ends the Job with the first run that fails.
	FailFast bool
}

var (
	dnsLabel     = pattern.Of(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	dnsSubdomain = pattern.Of(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	qualified    = pattern.Of(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

// Check returns a [config.ErrConfig] that names every setting Kubernetes would refuse.
func (s Settings) Check() error {
	var problems []string
	bad := func(key, format string, args ...any) {
		problems = append(problems, "launcher.kubernetes."+key+": "+fmt.Sprintf(format, args...))
	}
	switch {
	case s.Image == "":
		bad("image", "give the image with grpo that the pods run (the Dockerfile of grpo's sources builds one)")
	case strings.ContainsFunc(s.Image, func(r rune) bool { return r <= ' ' || r > '~' }):
		bad("image", "%s is not the name of an image", textutil.Quote(s.Image))
	}
	switch {
	case s.Claim == "":
		bad("claim", "give the persistent volume claim (access mode ReadWriteMany) that keeps the runs")
	case len(s.Claim) > 253 || !dnsSubdomain().MatchString(s.Claim):
		bad("claim", "%s is not the name of a claim (lower-case letters, digits, - and .)", textutil.Quote(s.Claim))
	}
	if s.Namespace != "" && !dnsLabel().MatchString(s.Namespace) {
		bad("namespace", "%s is not the name of a namespace (lower-case letters, digits and -)",
			textutil.Quote(s.Namespace))
	}
	switch {
	case !path.IsAbs(s.Mount) || path.Clean(s.Mount) != s.Mount || strings.Contains(s.Mount, ":") || s.Mount == "/":
		bad("mount", "%s must be an absolute path below / without \":\", such as /grpo", textutil.Quote(s.Mount))
	case strings.HasPrefix(s.Mount+"/", path.Dir(preparedDir)+"/"):
		bad("mount", "%s is in a folder of the system; choose another such as /grpo", textutil.Quote(s.Mount))
	}
	if _, err := s.labels(""); err != nil {
		bad("labels", "%v", err)
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", config.ErrConfig, strings.Join(problems, "\n"))
}

// labels are those of an object of the Job name.
func (s Settings) labels(name string) (map[string]string, error) {
	out := map[string]string{"app.kubernetes.io/name": "grpo", "app.kubernetes.io/instance": name}
	for _, l := range s.Labels {
		key, value, ok := strings.Cut(l, "=")
		prefix, last, two := strings.Cut(key, "/")
		if !two {
			prefix, last = "x", key
		}
		if !ok || len(prefix) > 253 || !dnsSubdomain().MatchString(prefix) || !qualified().MatchString(last) ||
			value != "" && !qualified().MatchString(value) {
			return nil, fmt.Errorf("%s is not a label key=value (letters, digits, -, _ and ., at most 63 of each)",
				textutil.Quote(l))
		}
		out[key] = value
	}
	return out, nil
}

// Name is the name of the Job and its ConfigMap, and of the sweep's folder on the volume: the name
// of the folder dir as far as a DNS label has its characters, and the hash of the sweep's manifest.
// So the same sweep has the same Job, which exists once: applying a manifest twice starts no second
// Job.
func Name(dir, hash string) string {
	const most = 40 // the hash and a pod's index follow; a label has at most 63
	dash := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}
	base := strings.Map(dash, strings.ToLower(filepath.Base(dir)))
	base = strings.TrimSuffix(base, hash)
	base = strings.Trim(base[:min(len(base), most)], "-")
	return cmp.Or(base, "sweep") + "-" + hash
}
