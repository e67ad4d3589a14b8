package train

import (
	"cmp"
	"fmt"
	"path/filepath"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/cuda/gpu"
	"grpo/pkg/model/kernel"
)

// worthGPU is the number of floating-point operations per step (rollout and update, as model.Work
// counts them) from which model.device "auto" takes a GPU; a smaller step mostly waits for kernel
// launches. It is an estimate; docs/gpu.md has the measurements.
const worthGPU = 1e9

// network is a policy, the CPU threads, and the device that computes.
type network struct {
	pool   *kernel.Pool
	device device
	policy model.Policy
	params *model.Params // the policy's
}

// opening is the activity of [openNetwork].
func opening(c config.Model) string { return "opening model " + filepath.Base(c.Init) }

// openNetwork makes the policy of a configuration on the device named by model.device. work is an
// estimate of the operations per step. Close the network even after an error.
func openNetwork(c config.Model, lora config.LoRA, seed uint64, threads int, work float64) (n network, err error) {
	n.pool = kernel.NewPool(threads)
	if n.device, err = openDevice(c, n.pool, work); err != nil {
		return n, err
	}
	if n.policy, err = newPolicy(c, lora, c.Init, seed, n.device.on); err != nil {
		return n, err
	}
	n.params = n.policy.Params()
	return n, nil
}

func (n *network) close() {
	n.device.close()
	n.pool.Close()
}

// device is where a run's arithmetic happens. The zero value means no device.
type device struct {
	on    model.Device
	gpu   gpu.Device // nil on the CPU
	notes []string   // why this device, for the user
}

// String names the GPU and its precision; it is empty on the CPU.
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

// openDevice opens the device that model.device asks for. "auto" takes a GPU if
// the program was built with CUDA, a step has enough work, and a GPU opens;
// otherwise the CPU, with a note that gives the reason.
func openDevice(c config.Model, pool *kernel.Pool, work float64) (device, error) {
	onCPU := device{on: pool}
	auto := c.Device == "auto"
	if c.Device == "cpu" || auto && !gpu.Built {
		return onCPU, nil
	}
	if auto && work < worthGPU {
		onCPU.notes = []string{fmt.Sprintf("model.device auto: the CPU, since a step has only %.2g "+
			"operations (GPUs are used from %.2g)", work, float64(worthGPU))}
		return onCPU, nil
	}
	card, err := gpu.Open(c.Precision)
	switch {
	case err == nil:
		return device{on: card, gpu: card, notes: []string{"on " + card.String()}}, nil
	case auto:
		onCPU.notes = []string{fmt.Sprintf("model.device auto: the CPU, since no GPU is available: %v", err)}
		return onCPU, nil
	case !gpu.Built:
		return device{}, fmt.Errorf("%w: model.device %s: %w", config.ErrConfig, c.Device, err)
	}
	return device{}, fmt.Errorf("open the device (model.device %s): %w", c.Device, err)
}

// onDeviceOf returns a with the device of b, and its precision unless both are the CPU: a run may
// move between devices. Under LoRA it stays in bf16 or out of it: the hash of the frozen weights,
// which in bf16 are rounded, must stay the same.
func onDeviceOf(a, b config.Config) config.Config {
	moves := a.Model.Device != b.Model.Device || a.Model.Device != "cpu"
	if moves && (a.Train.LoRA.Rank == 0 || (a.Model.Precision == bf16) == (b.Model.Precision == bf16)) {
		a.Model.Precision = b.Model.Precision
	}
	a.Model.Device = b.Model.Device
	return a
}

// moved notes that the run continues on a different device than its checkpoint's.
func (t *trainer) moved(was string) {
	now := t.device.String()
	if was == now {
		return
	}
	line := fmt.Sprintf("the run moved from %s to %s after step %d: its bits match those of neither device",
		cmp.Or(was, "the CPU"), cmp.Or(now, "the CPU"), t.state.Step)
	t.state.Moves = append(t.state.Moves, line)
	t.later("%s", line)
}
