package analysis

import (
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
)

// The schedule of the learning rate is next to the rate, which is not the last one
// of metrics.jsonl.
func TestSettingLineOfASchedule(t *testing.T) {
	for train, want := range map[string]string{
		"learning_rate: 0.001": "learning rate 0.001",
		"learning_rate: 0.001, lr_scheduler: constant, warmup_steps: 0": "learning rate 0.001",
		"learning_rate: 0.001, lr_scheduler: linear, warmup_steps: 5":   "learning rate 0.001  ·  linear decay, warm-up of 5 updates",
		"learning_rate: 0.001, lr_scheduler: cosine":                    "learning rate 0.001  ·  cosine decay",
		"learning_rate: 0.001, warmup_steps: 1":                         "learning rate 0.001  ·  warm-up of 1 update",
	} {
		info, err := ReadInfo(&rundir.Run{
			Config: []byte("name: x\ntrain: {" + train + "}\n"), Metrics: []rundir.Metrics{{LearningRate: 1e-7}},
		})
		expect.OK(t, err)
		if got := strings.TrimPrefix(SettingLine([]RunInfo{info}), "x  ·  "); got != want {
			t.Errorf("%s: %q, want %q", train, got, want)
		}
	}
}
