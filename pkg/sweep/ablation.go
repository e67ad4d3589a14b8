package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"grpo/configs"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
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
func AblationNames() []string { return configs.Names(ablationFolder) }

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
	text, err := requestFile.Read(nameOrPath)
	switch {
	case err == nil:
		return ParseRequest(nameOrPath, text)
	case !errors.Is(err, fs.ErrNotExist):
		return Request{}, configError("read sweep", fmt.Sprintf("%s: %v", nameOrPath, err))
	case configs.IsPath(nameOrPath):
		hint := ""
		if name := configs.NameOf(nameOrPath); slices.Contains(AblationNames(), name) {
			hint = fmt.Sprintf(" (the embedded ablation is named %q)", name)
		}
		return Request{}, configError("read sweep", nameOrPath+": no such file"+hint)
	}
	_, err = AblationText(nameOrPath)
	return Request{}, err
}

// AblationText returns the file of an embedded ablation.
func AblationText(name string) ([]byte, error) {
	names := AblationNames()
	if !slices.Contains(names, name) {
		return nil, configError("read sweep", fmt.Sprintf(
			"no ablation %s%s: there are %s; with grpo ablate the path of a YAML file works too",
			textutil.Quote(name), suggest.DidYouMean(name, names), strings.Join(names, ", ")))
	}
	return configs.FS.ReadFile(path.Join(ablationFolder, name+".yaml"))
}
