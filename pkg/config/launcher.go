package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"grpo/internal/pattern"
)

// Launcher says where and with what resources the runs of a sweep are trained. It changes no
// result, so it is part of neither the hash of a run nor its written configuration (see [Marshal]).
type Launcher struct {
	// Type: "local" (this machine), "slurm" (an array job) or "kubernetes" (an Indexed Job).
	Type string `yaml:"type" of:"launchers"`
	// CPUs, Memory and Time are those of one run; 0 and "" mean what the launcher proposes. See
	// [ParseMemory] and [ParseTime].
	CPUs   int    `yaml:"cpus" in:"[0,65536]"`
	Memory string `yaml:"memory"`
	Time   string `yaml:"time"`
	// Parallelism is the largest number of runs at a time (0 = no limit).
	Parallelism int `yaml:"parallelism" in:"[0,65536]"`

	// For Slurm alone.
	Partition string `yaml:"partition"`
	Account   string `yaml:"account"`
	QOS       string `yaml:"qos"`
	GRES      string `yaml:"gres"`
	Exclude   string `yaml:"exclude"` // nodes, as sbatch takes them
	// Setup are shell lines before the program; Directives are lines without "#SBATCH ".
	Setup      []string `yaml:"setup"`
	Directives []string `yaml:"directives"`

	Kubernetes Kubernetes `yaml:"kubernetes"`
}

// Kubernetes has the settings of the launcher "kubernetes".
type Kubernetes struct {
	Image     string   `yaml:"image"`
	Namespace string   `yaml:"namespace"`
	Claim     string   `yaml:"claim"` // name of a ReadWriteMany PersistentVolumeClaim
	Mount     string   `yaml:"mount"` // where a run finds the claim's volume
	Labels    []string `yaml:"labels"`
	GPUs      int      `yaml:"gpus" in:"[0,65536]"`
}

// LauncherTypes lists the values of launcher.type.
func LauncherTypes() []string { return []string{"local", "slurm", "kubernetes"} }

// OfLauncher reports whether a key of [Config] belongs to the section launcher.
func OfLauncher(path string) bool { return strings.HasPrefix(path, "launcher.") }

func (l *Launcher) validate(v *validator) {
	if _, err := ParseMemory(l.Memory); err != nil {
		v.reject("%s: %s", &l.Memory, err)
	}
	if _, err := ParseTime(l.Time); err != nil {
		v.reject("%s: %s", &l.Time, err)
	}
	k := &l.Kubernetes
	for _, word := range []*string{
		&l.Partition, &l.Account, &l.QOS, &l.GRES, &l.Exclude, &k.Image, &k.Namespace, &k.Claim,
	} {
		if strings.ContainsAny(*word, " \"'`\\$#;|&<>") {
			v.reject("%s must be one word without quotes and special characters", word)
		}
	}
	for _, d := range l.Directives {
		if strings.HasPrefix(strings.TrimSpace(d), "#") || !strings.HasPrefix(d, "-") {
			v.reject("%s: write an option of sbatch without \"#SBATCH\", such as --constraint=avx512, not %q",
				&l.Directives, d)
			break
		}
	}
	for _, label := range k.Labels {
		if key, _, ok := strings.Cut(label, "="); !ok || key == "" {
			v.reject("%s: write KEY=VALUE, not %q", &k.Labels, label)
			break
		}
	}
	if !strings.HasPrefix(k.Mount, "/") {
		v.reject("%s must be an absolute path", &k.Mount)
	}
}

var memoryForm = pattern.Of(`^([0-9]+(?:\.[0-9]+)?)([KMGT])(?:i?B?)$`)

// ParseMemory reads an amount of memory such as 4G, 800M, 1.5GiB or 512Mi. As in Slurm, all units
// are powers of 1024. It returns bytes; 0 for "".
func ParseMemory(text string) (bytes int64, err error) {
	if text == "" {
		return 0, nil
	}
	bad := errors.New("write an amount of memory such as 800M or 4G")
	m := memoryForm().FindStringSubmatch(text)
	if m == nil {
		return 0, bad
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, bad
	}
	n *= math.Pow(1024, float64(1+strings.Index("KMGT", m[2])))
	if n < 1<<20 || n > 1<<50 {
		return 0, errors.New("must be at least 1M and at most 1024T")
	}
	return int64(n), nil
}

var timeForm = pattern.Of(`^(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?$`)

// ParseTime reads a time limit as Slurm writes it: minutes, minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes or days-hours:minutes:seconds. It returns 0
// for "".
func ParseTime(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	m := timeForm().FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("write a time as Slurm takes it: 90 (minutes), 2:30:00 or 1-12:00:00 " +
			"(days-hours:minutes:seconds)")
	}
	var n [4]time.Duration
	for i, s := range m[1:] {
		v, _ := strconv.Atoi(s) // "" is 0, and the form bounds the digits
		n[i] = time.Duration(v)
	}
	days, a, b, c := n[0], n[1], n[2], n[3]
	var d time.Duration
	switch {
	case m[1] != "":
		d = days*24*time.Hour + a*time.Hour + b*time.Minute + c*time.Second
	case m[4] != "":
		d = a*time.Hour + b*time.Minute + c*time.Second
	default:
		d = a*time.Minute + b*time.Second
	}
	if d <= 0 {
		return 0, errors.New("must be longer than 0")
	}
	return d, nil
}
