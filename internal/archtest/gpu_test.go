package archtest

import (
	"go/build/constraint"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/expect"
)

const cudaPackages = "grpo/pkg/model/cuda"

// gpuFaults: all GPU code is below pkg/model/cuda, and the program uses it through
// pkg/model/cuda/gpu. pkg/model itself and the networks see only the interfaces that it implements.
func gpuFaults(s source, text string) (faults []string) {
	if strings.HasPrefix(s.name, "pkg/model/cuda/") {
		return nil
	}
	test := strings.HasSuffix(s.name, "_test.go")
	for _, i := range s.file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil || path != cudaPackages && !strings.HasPrefix(path, cudaPackages+"/") {
			continue
		}
		if strings.HasPrefix(s.name, "pkg/model/") || !test && path != cudaPackages+"/gpu" {
			faults = append(faults, s.fault(i, "imports "+path+" (only the packages below it do; others open a GPU through "+cudaPackages+"/gpu)"))
		}
	}
	for line := range strings.Lines(text) {
		ours := strings.HasPrefix(s.name, "pkg/model/") || strings.HasPrefix(s.name, "pkg/") && !test
		if ours && constraint.IsGoBuild(line) && strings.Contains(line, "withcuda") {
			faults = append(faults, s.name+": the build tag withcuda outside of pkg/model/cuda")
		}
	}
	return faults
}

func TestGPUCodeIsBelowCuda(t *testing.T) {
	files := 0
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(s.name)))
		expect.OK(t, err)
		for _, fault := range gpuFaults(s, string(text)) {
			t.Error(fault)
		}
		// The rule finds the same files in other folders.
		if strings.HasPrefix(s.name, "pkg/model/cuda/gpu/") && strings.Contains(string(text), "withcuda &&") {
			s.name = "pkg/model/tinylm/" + filepath.Base(s.name)
			if len(gpuFaults(s, string(text))) == 0 {
				t.Errorf("%s would not be noticed", s.name)
			}
			files++
		}
	}
	if files == 0 {
		t.Error("no file was tried")
	}
}
