package sweepdir

import (
	"slices"
	"strings"
)

// InFolder is the command argv without --prepare and --dry-run, which train nothing, --fresh, which would start over,
// and --continued, which only a job has. The arguments of folder take the place of --out and its value; named
// reports whether there was one. The flags of dropped are left out too, with their values.
func InFolder(argv, folder []string, dropped ...string) (out []string, named bool) {
	for i := 0; i < len(argv); i++ {
		name, _, joined := strings.Cut(argv[i], "=")
		switch {
		case name == "--prepare", name == "--dry-run", name == "--fresh", name == "--continued":
			continue
		case name == "--out":
			out, named = append(out, folder...), true
		case !slices.Contains(dropped, name):
			out = append(out, argv[i])
			continue
		}
		if !joined {
			i++ // its value
		}
	}
	return out, named
}
