package safetensors

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// pythonVar names an interpreter that has safetensors, numpy and torch. The
// tests here compare with Hugging Face's own library and are skipped without it:
//
//	GRPO_TEST_PYTHON=/path/to/python go test -run Python -v ./pkg/model/safetensors
const pythonVar = "GRPO_TEST_PYTHON"

func python(t *testing.T, args ...string) []byte {
	t.Helper()
	interpreter := os.Getenv(pythonVar)
	if interpreter == "" {
		t.Skip("set " + pythonVar + " to a Python with safetensors, numpy and torch to run this")
	}
	cmd := exec.Command(interpreter, append([]string{filepath.Join("testdata", "interop.py")}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("interop.py %q: %v", args, err)
	}
	return out
}

func TestPythonReadsOurs(t *testing.T) {
	bits := []uint32{0, 1 << 31, 1, 0x7f7fffff, 0xff800000, 0x7fd5aa55, 0x7f800001}
	special := make([]float32, len(bits))
	for i, b := range bits {
		special[i] = math.Float32frombits(b)
	}
	long := make([]float32, 3*5000)
	for i := range long {
		long[i] = float32(i) / 7
	}
	tensors := []Tensor{
		{Name: "rnn.weight_ih_l0", Shape: []int{3, 5000}, Data: long},
		{Name: "special", Shape: []int{len(bits)}, Data: special},
		{Name: "empty", Shape: []int{0, 3}},
		{Name: "scalar", Data: []float32{0.1}},
		{Name: "caf\u00e9 \"<>\"\n\u2028\U0001F600", Shape: []int{1, 1}, Data: []float32{2}},
	}
	metadata := map[string]string{"format": "pt", "k\u00e9y": "\"<\\>\"\x01\u2028"}
	path := filepath.Join(t.TempDir(), "go.safetensors")
	if err := os.WriteFile(path, mustWrite(t, tensors, metadata), 0o600); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata map[string]string
		Tensors  map[string]struct {
			Dtype, Hex string
			Shape      []int
		}
	}
	if err := json.Unmarshal(python(t, "describe", path), &got); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.Metadata, metadata) {
		t.Errorf("metadata %q, want %q", got.Metadata, metadata)
	}
	if len(got.Tensors) != len(tensors) {
		t.Errorf("%d tensors, want %d", len(got.Tensors), len(tensors))
	}
	for _, want := range tensors {
		var raw []byte
		for _, x := range want.Data {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		g := got.Tensors[want.Name]
		if g.Dtype != "float32" || !slices.Equal(g.Shape, want.Shape) || g.Hex != hex.EncodeToString(raw) {
			t.Errorf("%q: %s %v, or other bits", want.Name, g.Dtype, g.Shape)
		}
	}
}

// All numbers of F16 and BF16, and F64 over the range of float32, as NumPy and
// PyTorch convert them. Any NaN is taken for any other: hardware that converts
// F16 sets the quiet bit, a conversion by software leaves it.
func TestReadsPythons(t *testing.T) {
	dir := t.TempDir()
	python(t, "write", dir)
	open := func(name string) *File {
		f, err := ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	expected := open("expected.safetensors")
	compared := 0
	for _, file := range []string{"numpy.safetensors", "torch.safetensors"} {
		for _, got := range open(file).Tensors {
			want, ok := expected.Get(got.Name)
			if !ok || len(want.Data) != len(got.Data) {
				t.Fatalf("%s: %d elements, want %d", got.Name, len(got.Data), len(want.Data))
			}
			for i, x := range got.Data {
				y := want.Data[i]
				if math.Float32bits(x) != math.Float32bits(y) && !(math.IsNaN(float64(x)) && math.IsNaN(float64(y))) {
					t.Fatalf("%s: element %d is %g, want %g", got.Name, i, x, y)
				}
				compared++
			}
		}
	}
	if compared != 2*65536+5000 {
		t.Errorf("%d elements were compared", compared)
	}

	model := open("model.safetensors")
	shapes := map[string][]int{
		"embed.weight":     {100, 64},
		"rnn.weight_ih_l0": {192, 64}, "rnn.weight_hh_l0": {192, 64}, "rnn.bias_ih_l0": {192}, "rnn.bias_hh_l0": {192},
		"rnn.weight_ih_l1": {192, 64}, "rnn.weight_hh_l1": {192, 64}, "rnn.bias_ih_l1": {192}, "rnn.bias_hh_l1": {192},
		"head.weight": {100, 64}, "head.bias": {100},
	}
	parameters := 0
	for _, x := range model.Tensors {
		if !slices.Equal(x.Shape, shapes[x.Name]) {
			t.Errorf("%s has shape %v, want %v", x.Name, x.Shape, shapes[x.Name])
		}
		parameters += len(x.Data)
	}
	if parameters != 62820 || len(model.Tensors) != len(shapes) {
		t.Errorf("%d tensors with %d parameters", len(model.Tensors), parameters)
	}
}
