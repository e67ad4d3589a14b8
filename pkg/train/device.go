package train

import (
	"fmt"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/cuda/gpu"
	"grpo/pkg/model/kernel"
)

// worthGPU is the number of floating-point operations of a step (rollout and
// update, as model.Work counts them) from which model.device "auto" takes a GPU:
// below it, a GPU mostly waits for the next step of a sequence. It is an
// estimate; docs/gpu.md has the measurements.
const worthGPU = 1e9

// device is where a run's arithmetic happens. The zero value is none.
type device struct {
	on    model.Device
	gpu   gpu.Device // nil on the CPU
	notes []string   // what people should know of the choice
}

// String is the card and its precision, and empty on the CPU.
func (d device) String() string {
	if d.gpu == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s", d.gpu.Name(), d.gpu.Precision())
}

func (d device) close() {
	if d.gpu != nil {
		d.gpu.Close()
	}
}

// openDevice opens what model.device asks for. "auto" takes a GPU where the
// program was built with CUDA, a step has enough work, and a GPU opens; else the
// CPU, with a note that gives the reason.
func openDevice(c config.Model, pool *kernel.Pool, work float64) (device, error) {
	onCPU := device{on: pool}
	switch c.Device {
	case "cpu":
		return onCPU, nil
	case "auto":
		if !gpu.Built {
			return onCPU, nil
		}
		if work < worthGPU {
			onCPU.notes = []string{fmt.Sprintf("model.device auto: the CPU, since a step has %.2g operations only (a GPU is taken from %.2g on)", work, float64(worthGPU))}
			return onCPU, nil
		}
	}
	if !gpu.Built {
		_, err := gpu.Open(c.Precision)
		return device{}, fmt.Errorf("%w: model.device %s: %w", config.ErrConfig, c.Device, err)
	}
	card, err := gpu.Open(c.Precision)
	if err != nil {
		if c.Device == "auto" {
			onCPU.notes = []string{fmt.Sprintf("model.device auto: the CPU, since no GPU is available: %v", err)}
			return onCPU, nil
		}
		return device{}, fmt.Errorf("open the device (model.device %s): %w", c.Device, err)
	}
	return device{on: card, gpu: card, notes: []string{"on " + card.String()}}, nil
}

// onDeviceOf returns a with the device and precision of b: a run may move from
// one to the other.
func onDeviceOf(a, b config.Config) config.Config {
	a.Model.Device, a.Model.Precision = b.Model.Device, b.Model.Precision
	return a
}

// moved notes that the run continues on another device than its checkpoint's.
func (t *trainer) moved(was string) {
	now := t.device.String()
	if was == now {
		return
	}
	name := func(s string) string {
		if s == "" {
			return "the CPU"
		}
		return s
	}
	line := fmt.Sprintf("the run moved from %s to %s after step %d: its bits match those of neither device", name(was), name(now), t.state.Step)
	t.state.Moves = append(t.state.Moves, line)
	t.later("%s", line)
}
