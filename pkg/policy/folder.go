package policy

import (
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/safetensors"
)

// Folder is the folder that the trained weights of a Llama or Qwen network are: a Hugging Face folder, of a reward
// model or a policy, or for adapters a PEFT folder. It has all files but the weights.
type Folder struct{ files hf.Folder }

// Folder returns the folder of the model's weights, of a reward model if reward is true; nil for a TinyLM.
func (m *Model) Folder(reward bool) (*Folder, error) {
	if !m.IsDecoder() {
		return nil, nil
	}
	if m.LoRA.Rank > 0 {
		f, err := hf.AdapterFolder(m.source.baseName(), hf.LoRA(m.LoRA))
		return &Folder{f}, err
	}
	checkpoint, err := hf.Open(m.source.base)
	if err != nil {
		return nil, config.Invalid(err)
	}
	defer checkpoint.Close()
	f, err := checkpoint.Folder()
	if err == nil && reward {
		f, err = f.Reward(checkpoint)
	}
	return &Folder{f}, err
}

// Write writes the folder with these weights; metadata are for [VerifyFolder].
func (f *Folder) Write(dir string, weights *model.Params, metadata map[string]string) error {
	var tensors []safetensors.Tensor
	for _, x := range weights.Tensors() {
		tensors = append(tensors, safetensors.Tensor{Name: x.Name, Shape: x.Shape, Data: x.Data})
	}
	return f.files.Write(dir, "F32", tensors, metadata)
}

// VerifyFolder compares the files that [Folder.Write] wrote with their checksums, and returns the metadata.
func VerifyFolder(dir string) (map[string]string, error) { return hf.Verify(dir) }
