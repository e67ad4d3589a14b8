package sweep

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"grpo/configs"
)

// ablationFolder of the embedded configurations holds the ablations.
const ablationFolder = "ablations"

// Ablation is an embedded request.
type Ablation struct {
	Name     string `json:"name"`
	Question string `json:"question"`
	Arms     int    `json:"arms"` // with axes, the points of their grid
}

// Ablations lists the embedded ablations, sorted by name.
func Ablations() []Ablation {
	var out []Ablation
	for _, name := range AblationNames() {
		req, err := LoadRequest(name)
		if err != nil {
			panic("sweep: embedded ablations: " + err.Error()) // a test reads them all
		}
		n := max(1, len(req.Arms))
		for _, a := range req.Axes {
			n *= len(a.Values)
		}
		out = append(out, Ablation{Name: name, Question: req.Question, Arms: n})
	}
	return out
}

// AblationNames lists the names of the embedded ablations, sorted.
func AblationNames() []string {
	entries, err := fs.ReadDir(configs.FS, ablationFolder)
	if err != nil {
		panic("sweep: embedded ablations: " + err.Error()) // cannot happen with go:embed
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	return names
}

// maxRequest bounds the size of a request's file. A sweep.yaml of a thousand
// arms has some hundred kilobytes.
const maxRequest = 4 << 20

// LoadRequest reads the embedded ablation of that name, or else the file at that
// path; a file that has an ablation's name is found as ./name.
func LoadRequest(nameOrPath string) (Request, error) {
	if slices.Contains(AblationNames(), nameOrPath) {
		text, err := AblationText(nameOrPath)
		if err != nil {
			return Request{}, err
		}
		return ParseRequest(nameOrPath+" (embedded)", text)
	}
	text, err := readRequest(nameOrPath)
	switch {
	case err == nil:
		return ParseRequest(nameOrPath, text)
	case !errors.Is(err, fs.ErrNotExist):
		return Request{}, configError("read sweep", fmt.Sprintf("%s: %v", nameOrPath, err))
	case strings.ContainsAny(nameOrPath, `/\`) || strings.HasSuffix(nameOrPath, ".yaml") || strings.HasSuffix(nameOrPath, ".yml"):
		return Request{}, configError("read sweep", fmt.Sprintf("%s: no such file%s", nameOrPath, embeddedHint(nameOrPath)))
	}
	_, err = AblationText(nameOrPath)
	return Request{}, err
}

// AblationText returns the file of an embedded ablation.
func AblationText(name string) ([]byte, error) {
	names := AblationNames()
	if !slices.Contains(names, name) {
		return nil, configError("read sweep", fmt.Sprintf("no ablation %q%s: there are %s; with grpo ablate the path of a YAML file works too",
			name, didYouMean(name, names), strings.Join(names, ", ")))
	}
	return configs.FS.ReadFile(path.Join(ablationFolder, name+".yaml"))
}

func embeddedHint(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	for _, n := range AblationNames() {
		if n == name {
			return fmt.Sprintf(" (the embedded ablation is named %q)", n)
		}
	}
	return ""
}

func readRequest(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("this is a folder; a sweep's request is sweep.yaml in it")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRequest+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxRequest {
		return nil, fmt.Errorf("the file is larger than %d MiB: not a sweep", maxRequest>>20)
	}
	return text, nil
}
