package tensorboard

import (
	"encoding/hex"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
)

// The bytes that TensorBoard's own RecordWriter writes for the same events.
func TestBytesOfTensorBoard(t *testing.T) {
	for name, tt := range map[string]struct {
		got  []byte
		want string
	}{
		"header": {Header(1.5), "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c"},
		"scalars": {
			Scalars(2.25, 300, []rundir.Scalar{{Name: "train/loss", Value: -0.125}, {Name: "none", Value: math.NaN()}, {Name: "a", Value: 1e-3}}),
			"2b00000000000000861bc34b09000000000000024010ac022a1d0a110a0a747261696e2f6c6f737315000000be0a080a0161156f12833aae44c5ff",
		},
		"image": {
			Image(3, 7, "figures/x", []byte("PNG!"), 300, 2),
			"290000000000000037ff5f0009000000000000084010072a1c0a1a0a09666967757265732f78220d080210ac0218042204504e47214619fcac",
		},
	} {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, tt.want)
		}
	}
}

func TestTimeline(t *testing.T) {
	var m rundir.Metrics
	tl := NewTimeline(&rundir.Meta{Started: "2026-01-02T03:04:05Z", ElapsedS: 100})
	const start = 1767323045 - 100
	if tl.Now() != start {
		t.Errorf("start %v", tl.Now())
	}
	for _, s := range []struct{ elapsed, want float64 }{{2, 2}, {math.NaN(), 2}, {1, 2}, {120.5, 120.5}} {
		m.Time.ElapsedS = s.elapsed
		if tl.Step(m); tl.Now() != start+s.want {
			t.Errorf("after %v seconds: %v", s.elapsed, tl.Now()-start)
		}
	}
	for _, meta := range []*rundir.Meta{nil, {}, {Started: "yesterday"}} {
		if now := NewTimeline(meta).Now(); now != 0 {
			t.Errorf("%v: start %v", meta, now)
		}
	}
}

// TensorBoard reads the scalars and the image that were written:
//
//	GRPO_TEST_PYTHON=/path/to/python go test ./pkg/tensorboard
func TestTensorBoardReadsOurs(t *testing.T) {
	python := os.Getenv("GRPO_TEST_PYTHON")
	if python == "" || exec.Command(python, "-c", "import tensorboard").Run() != nil {
		t.Skip("set GRPO_TEST_PYTHON to a Python with tensorboard to run this")
	}
	r := reporttest.SynthRun(t, 1, 20)
	data, tl := Run(r)
	data = append(data, Image(tl.Now(), 20, "figures/x", []byte("PNG!"), 300, 2)...)
	dir := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(dir, rundir.EventsFile), data, 0o600))
	out, err := exec.Command(python, "-c", `
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0})
a.Reload()
print(*[s.step for s in a.Scalars("train/reward/mean")])
print(*[s.step for s in a.Scalars("eval/val/sampled/answer_reward")])
print(a.Scalars("train/entropy")[-1].value)
i = a.Images("figures/x")[0]
print(i.step, i.width, i.height, i.encoded_image_string)
`, dir).Output()
	expect.OK(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if want := "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"; len(lines) != 4 || lines[0] != want {
		t.Fatalf("%q", lines)
	}
	if !slices.Equal(strings.Fields(lines[1])[:2], []string{"0", "10"}) || lines[3] != "20 300 2 b'PNG!'" {
		t.Errorf("%q", lines)
	}
}
