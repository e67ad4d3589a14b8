package policy

import (
	"fmt"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/cuda/gpu"
	"grpo/pkg/model/kernel"
)

// worthGPU is the number of floating-point operations per step (rollout and update, as model.Work
// counts them) from which model.device "auto" takes a GPU; a smaller step mostly waits for kernel
// launches. It is an estimate; docs/gpu.md has the measurements.
const worthGPU = 1e9

// Device is where a run's arithmetic happens. The zero value means no device.
type Device struct {
	On    model.Device
	GPU   gpu.Device // nil on the CPU
	Notes []string   // why this device, for the user
}

// CUDA reports whether the program can use GPUs.
const CUDA = gpu.Built

// Memory is the memory of the GPU; zero on the CPU.
func (d Device) Memory() gpu.Memory {
	if d.GPU == nil {
		return gpu.Memory{}
	}
	return d.GPU.Memory()
}

// String names the GPU and its precision; it is empty on the CPU.
func (d Device) String() string {
	if d.GPU == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s", d.GPU.Name(), d.GPU.Precision())
}

func (d Device) close() {
	if d.GPU != nil {
		d.GPU.Close()
	}
}

// openDevice opens the device that model.device asks for. "auto" takes a GPU if
// the program was built with CUDA, a step has enough work, and a GPU opens;
// otherwise the CPU, with a note that gives the reason.
func openDevice(c config.Model, pool *kernel.Pool, work float64) (Device, error) {
	onCPU := Device{On: pool}
	auto := c.Device == "auto"
	if c.Device == "cpu" || auto && !gpu.Built {
		return onCPU, nil
	}
	if auto && work < worthGPU {
		onCPU.Notes = []string{fmt.Sprintf("model.device auto: the CPU, since a step has only %.2g "+
			"operations (GPUs are used from %.2g)", work, float64(worthGPU))}
		return onCPU, nil
	}
	card, err := gpu.Open(c.Precision)
	switch {
	case err == nil:
		return Device{On: card, GPU: card, Notes: []string{"on " + card.String()}}, nil
	case auto:
		onCPU.Notes = []string{fmt.Sprintf("model.device auto: the CPU, since no GPU is available: %v", err)}
		return onCPU, nil
	case !gpu.Built:
		return Device{}, fmt.Errorf("%w: model.device %s: %w", config.ErrConfig, c.Device, err)
	}
	return Device{}, fmt.Errorf("open the device (model.device %s): %w", c.Device, err)
}
