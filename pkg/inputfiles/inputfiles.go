// Package inputfiles hashes the files that a configuration names. A configuration's hash covers their names
// alone. So a run records the checksums of all files that it reads (input_files), and whoever continues,
// extends, reuses or shows a run compares them with the contents of now.
package inputfiles

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/hubcache"
	"grpo/internal/regular"
	"grpo/pkg/config"
)

// Hashes has the SHA-256 of the files that configurations name, by path; each is read once.
type Hashes map[string]string

// Sums returns the SHA-256 of those paths that are regular files, by path, without the folder of the
// Hugging Face cache, which another machine has elsewhere. A pipe can't be read twice.
func (f Hashes) Sums(paths []string) (map[string]string, error) {
	var out map[string]string
	cache, err := hubcache.Dir(os.Getenv)
	if err != nil {
		cache = "none" // without a home folder
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue // whoever needs it reports it
		}
		if f[path] == "" {
			if f[path], err = regular.SHA256(path); err != nil {
				return nil, fmt.Errorf("hash an input of the run: %w", err)
			}
		}
		if out == nil {
			out = map[string]string{}
		}
		out[strings.TrimPrefix(path, cache+string(filepath.Separator))] = f[path]
	}
	return out, nil
}

// DataPaths are the files of problems and of worked examples.
func DataPaths(d config.Data) (out []string) {
	if !d.Generated() {
		out = append(out, d.TrainFile, d.ValFile, d.TestFile)
	}
	return append(out, d.FewShotFile)
}

// Compare names the files with other contents, or that were added; gone are those that are not
// there now.
func Compare(then, now map[string]string) (changed, gone []string) {
	for _, path := range slices.Sorted(maps.Keys(then)) {
		if now[path] == "" {
			gone = append(gone, path)
		} else if now[path] != then[path] {
			changed = append(changed, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if then[path] == "" {
			changed = append(changed, path+", which was not there")
		}
	}
	return changed, gone
}

// NoteGone says which files of a finished run can't be compared.
func NoteGone(note func(string), gone []string) {
	if len(gone) > 0 {
		note("not compared, because it is not there any more: " + strings.Join(gone, ", "))
	}
}
