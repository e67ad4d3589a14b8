//go:build withcuda && linux

package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/internal/cudalib"
	"grpo/internal/expect"
	"grpo/pkg/model/cuda"
)

// cardEnv makes the tests run on a real GPU. Without it they run on the emulator:
// a process can load only one driver.
const cardEnv = "GRPO_TEST_GPU"

// onCard reports whether the tests of this process run on a real GPU.
func onCard() bool { return os.Getenv(cardEnv) != "" }

// testGPU opens a GPU, the emulated one or the real one.
func testGPU(t testing.TB, precision string) *device {
	t.Helper()
	if !onCard() {
		dir := cudaemu.Build(t)
		t.Setenv(cudalib.Env, dir)
		t.Setenv(cuda.CacheEnv, filepath.Join(dir, "cache"))
	}
	g, err := Open(precision)
	expect.OK(t, err)
	t.Cleanup(g.Close)
	return g.(*device)
}

// If the machine has a GPU, the tests of this package whose names start with GPU also run on it, in
// a separate process.
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
