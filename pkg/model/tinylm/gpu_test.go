//go:build withcuda && linux

package tinylm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/internal/cudalib"
	"grpo/pkg/model/cuda"
)

// cardEnv asks the tests for a real GPU. Without it they run on the emulator:
// one process can load one driver only.
const cardEnv = "GRPO_TEST_GPU"

// onCard says whether the tests of this process run on a real GPU, where sizes
// may be larger.
func onCard() bool { return os.Getenv(cardEnv) != "" }

// testGPU opens a GPU, the emulated one or the real one.
func testGPU(t testing.TB, precision string) *gpu {
	t.Helper()
	if !onCard() {
		dir := cudaemu.Build(t)
		t.Setenv(cudalib.Env, dir)
		t.Setenv(cuda.CacheEnv, filepath.Join(dir, "cache"))
	}
	g, err := OpenGPU(precision)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g.(*gpu)
}

// Where there is a GPU, the tests of this package whose names begin with GPU run
// on it too, in a process of their own.
func TestOnTheCard(t *testing.T) {
	if onCard() {
		t.Skip("this process runs on the card")
	}
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		t.Skip("no NVIDIA GPU here: the tests ran on the emulator only")
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestGPU", "-test.v")
	cmd.Env = append(os.Environ(), cardEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("on the card: %v\n%s", err, out)
	}
	t.Logf("%d tests passed on the card", strings.Count(string(out), "\n--- PASS"))
}
