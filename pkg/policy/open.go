package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/model/tinylm/tokenizer"
)

// Network is an opened model: its policy, the CPU threads, and the device that computes.
type Network struct {
	Pool   *kernel.Pool
	Device Device
	Policy model.Policy
	Params *model.Params // the policy's
}

// Open opens the model on the device named by model.device. Adapters, and the weights of "random", are drawn from
// seed. work is an estimate of the operations per step. Close the network even after an error.
func (m *Model) Open(seed uint64, threads int, work float64, progress model.Progress) (n Network, err error) {
	progress.Do("opening model " + filepath.Base(m.Config.Init))
	n.Pool = kernel.NewPool(threads)
	if n.Device, err = openDevice(m.Config, n.Pool, work); err != nil {
		return n, err
	}
	if n.Policy, err = m.policy("the initial weights (model.init)", seed, n.Device.On); err != nil {
		return n, err
	}
	n.Params = n.Policy.Params()
	return n, nil
}

// Close frees the memory of the device and ends the threads.
func (n *Network) Close() {
	n.Device.close()
	n.Pool.Close()
}

// policy returns the policy on a device. Its parameters are the embedded base model ("base"), random ones by seed
// ("random"), or those of the checkpoint at a path. A checkpoint of another size than the configuration's, if that has
// one, or with NaN or Inf is an error. Errors name what it is.
func (m *Model) policy(what string, seed uint64, on model.Device) (model.Policy, error) {
	c := m.Config
	if m.source != nil {
		return m.source.open(what, c.Precision == bf16, m.LoRA, seed, on)
	}
	if m.LoRA.Rank > 0 {
		return nil, config.Invalid(fmt.Errorf("train.lora.rank (%d): model.init (%s) is a TinyLM, and adapters are for "+
			"Hugging Face folders and GGUF files (leave train.lora out)", m.LoRA.Rank, c.Init))
	}
	if c.Device == "cpu" && c.Precision == bf16 {
		return nil, config.Invalid(fmt.Errorf("model.precision (bf16) has no effect: %s is a TinyLM, which the CPU "+
			"computes in float32 (set model.device to cuda or auto, or leave this key out)", c.Init))
	}
	spec := m.spec()
	if c.Init == "random" && c.HiddenSize > 0 {
		w, err := tinylm.NewWeights(spec)
		if err != nil {
			return nil, err
		}
		w.Init(seed)
		return tinylm.New(w, on), nil
	}
	w, name, err := savedWeights(c.Init)
	if errors.Is(err, fs.ErrNotExist) {
		fix := "name the file or folder of a checkpoint"
		if command := config.MadeBy(c.Init); command != "" {
			fix = "make it with: " + command
		}
		err = fmt.Errorf("%w (%s)", err, fix)
	}
	if err == nil && c.HiddenSize == 0 && w.Vocab != tokenizer.VocabSize {
		err = fmt.Errorf("%s has a vocabulary of %d, the tokenizer of %d", name, w.Vocab, tokenizer.VocabSize)
	}
	if err != nil {
		return nil, loadError(what, err)
	}
	if c.HiddenSize > 0 && w.Spec != spec {
		fix := "leave model.hidden_size and model.num_layers out, and they follow the checkpoint"
		if c.Init == "base" {
			fix = fmt.Sprintf("for a base model of this size: grpo sft --set hidden_size=%d "+
				"--set num_layers=%d --out DIR, then "+
				"--set model.init=DIR; model.init=random starts without one", spec.Hidden, spec.Layers)
		}
		return nil, config.Invalid(fmt.Errorf("load %s: %s is a %v, the configuration asks for a %v (%s)",
			what, name, w.Spec, spec, fix))
	}
	return tinylm.New(w, on), nil
}

// OpenTeacher returns the policy of a teacher's checkpoint. It may have another size than the student but must
// have the same vocabulary: it scores the student's tokens.
func OpenTeacher(path string, student model.Policy, on model.Device) (model.Policy, error) {
	const what = "the teacher (algorithm.teacher)"
	teacher, err := openFile(path, what, on)
	if err != nil {
		return nil, err
	}
	own, isDecoder := student.(*decoder.Policy)
	other, sameKind := teacher.(*decoder.Policy)
	if isDecoder != sameKind || isDecoder && !own.SameTokens(other.Tokenizer) { // all TinyLMs have one tokenizer
		return nil, config.Invalid(fmt.Errorf("load %s: %s (%v) has another vocabulary than the policy (%v), "+
			"whose tokens it must score: name a checkpoint with the policy's tokenizer",
			what, path, teacher.Size(), student.Size()))
	}
	return teacher, nil
}

// TeacherSize is the size of a teacher's network. A TinyLM counts as one of the student's size, and so does a
// checkpoint that can't be read, which opening it reports.
func TeacherSize(path, device string, student model.Size) model.Size {
	if m, err := Resolve(config.Model{Init: path, Device: device}, config.LoRA{}); err == nil && m.IsDecoder() {
		return m.Size
	}
	return student
}

// Open opens a model on a device: "base", or any path that model.init takes. A TinyLM may have any size.
func Open(name string, on model.Device) (model.Policy, error) {
	if name != "base" {
		found, err := FindCheckpoint(name, "")
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", name, err)
		}
		name = cmp.Or(found.File, name)
	}
	return openFile(name, "the model", on)
}

// openFile opens "base" or the checkpoint at a path; a TinyLM may have any size. Errors name what it is.
func openFile(file, what string, on model.Device) (model.Policy, error) {
	m, err := Resolve(config.Model{Init: file}, config.LoRA{})
	if err != nil {
		return nil, err
	}
	return m.policy(what, 0, on)
}

// savedWeights reads the embedded base model ("base") or the file at a path, and returns its name for errors.
func savedWeights(init string) (w *tinylm.Weights, name string, err error) {
	if init == "base" {
		w, err = base.Weights()
		return w, "the embedded base model", err
	}
	w, err = tinylm.ReadFile(init)
	return w, init, err
}

// loadError wraps an error of loading weights. A missing file is a mistake in the configuration.
func loadError(what string, err error) error {
	missing := errors.Is(err, fs.ErrNotExist)
	if err = fmt.Errorf("load %s: %w", what, err); missing {
		return config.Invalid(err)
	}
	return err
}

// LearnerError explains an error of making a learner or a critic.
func LearnerError(err error) error {
	if errors.Is(err, model.ErrCheckpointing) {
		return config.Invalid(errors.New("train.gradient_checkpointing (true): TinyLM keeps its activations, " +
			"which are small (leave this key out; it is for Hugging Face folders and GGUF files)"))
	}
	return err
}

// InitHash identifies the initial weights of a run, frozen ones included. It ends with the hash of the trainable
// ones.
func InitHash(p model.Policy) string {
	hash := p.Params().Hash()
	if d, ok := p.(*decoder.Policy); ok && d.FrozenHash() != "" {
		return d.FrozenHash() + "+" + hash
	}
	return hash
}

// NetworkHash identifies the network and the tokenizer of a Llama or Qwen checkpoint, without its weights; empty
// for TinyLM.
func NetworkHash(p model.Policy) string {
	if d, ok := p.(*decoder.Policy); ok {
		return d.NetworkHash()
	}
	return ""
}
