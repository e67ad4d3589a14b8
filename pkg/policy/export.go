package policy

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/safetensors"
	"grpo/pkg/rundir"
)

// ExportOptions say what [Export] writes.
type ExportOptions struct {
	Path  string // a run's folder, a checkpoint, a Hugging Face or PEFT folder or a GGUF file
	Which string // checkpoint of a run: "best" or "last"
	Out   string // the new folder
	Dtype string // "f32" or "bf16"
	Merge bool   // add adapters to the weights of their base
	// AdapterBase is the base of adapters, if not the one that they name: see [config.Model].
	AdapterBase string
	// Disk accepts or rejects the bytes to write below a folder; nil accepts all.
	Disk func(dir string, bytes float64) error
}

// Exported is the folder that [Export] wrote.
type Exported struct {
	Dir    string `json:"dir"`
	Source string `json:"source"` // of the weights
	Dtype  string `json:"dtype"`
	Bytes  int64  `json:"bytes"`
}

// ExportDtypes are the types of weights by their names on the command line.
var ExportDtypes = map[string]string{"f32": "F32", "bf16": "BF16"}

// Export writes a Hugging Face folder of a Llama or Qwen network, or a PEFT folder of adapters. It
// appears at o.Out as a whole or not at all. One tensor of the weights at a time is in memory, and
// all adapters.
func Export(ctx context.Context, o ExportOptions) (out *Exported, err error) {
	defer func() {
		if err != nil {
			out, err = nil, fmt.Errorf("export %s: %w", o.Path, err)
		}
	}()
	path, ofRun, err := WeightsAt(o.Path, o.Which)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); ofRun && err != nil {
		return nil, config.Invalid(fmt.Errorf("there is no %s (give a run's folder, a checkpoint, a Hugging Face "+
			"folder or a GGUF file)", path))
	}
	s, err := sourceOf(path, o.AdapterBase)
	if s == nil && err == nil {
		err = maybeWeights(path)
	}
	switch {
	case err != nil:
		return nil, config.Invalid(err)
	case s == nil:
		return nil, config.Invalid(fmt.Errorf("%s has the weights of a TinyLM, a form that no other program loads as "+
			"a model; the safetensors file itself can be read with PyTorch", path))
	case s.lora == nil && o.Merge:
		return nil, config.Invalid(fmt.Errorf("%s has no adapters to merge (leave --merge out)", path))
	case s.lora == nil && o.AdapterBase != "":
		return nil, config.Invalid(fmt.Errorf("%s has no adapters, which --adapter-base is for (leave it out)", path))
	}
	c, err := hf.Open(s.base)
	if err != nil {
		return nil, config.Invalid(err)
	}
	defer c.Close()
	folder, tensors, closeFiles, err := s.export(c, o.Merge)
	defer closeFiles()
	if err != nil {
		return nil, err
	}
	for i, t := range tensors {
		tensors[i].Load = func() ([]float32, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return t.Load()
		}
	}
	dtype := ExportDtypes[o.Dtype]
	bytes := folder.Bytes(tensors, dtype)
	if err := rundir.Vacant(o.Out); err != nil {
		return nil, config.Invalid(fmt.Errorf("%w; give another --out", err))
	}
	if o.Disk != nil {
		if err := o.Disk(o.Out, float64(bytes)); err != nil {
			return nil, err
		}
	}
	if err := rundir.MkdirAll(filepath.Dir(filepath.Clean(o.Out))); err != nil {
		return nil, err
	}
	err = rundir.NewFolder(o.Out, func(dir string) error { return folder.Write(dir, dtype, tensors, nil) })
	return &Exported{o.Out, path, o.Dtype, bytes}, err
}

// export returns the files of the folder to write and the tensors of its weights. Call closeFiles
// when they are written.
func (s *source) export(c *hf.Checkpoint, merge bool) (folder hf.Folder, tensors []safetensors.Tensor,
	closeFiles func(), err error) {
	closeFiles = func() {}
	if s.lora != nil && !merge {
		folder, tensors, err = s.exportAdapters(c)
		return folder, tensors, closeFiles, err
	}
	add := func(string, []float32) {}
	if s.lora != nil {
		adapters, err := s.adapters(c.Config)
		if err == nil {
			add, err = decoder.Merge(c.Config, hf.LoRA(*s.lora), adapters)
		}
		if err != nil {
			return nil, nil, closeFiles, err
		}
	}
	read := func(name string, _ []int) ([]float32, error) { return c.Read(name) }
	if s.weights != "" {
		if err := regular.Check(s.weights, regular.MaxCheckpoint); err != nil {
			return nil, nil, closeFiles, err
		}
		r, err := safetensors.Open(s.weights)
		if err != nil {
			return nil, nil, closeFiles, err
		}
		closeFiles = func() { _ = r.Close() } // it was only read
		read = func(name string, shape []int) ([]float32, error) {
			w, err := readTensor(r, name, shape)
			if err != nil {
				return nil, fmt.Errorf("%s: tensor %q: %w", s.weights, name, err)
			}
			return w, nil
		}
	}
	names, shapes := c.Config.Shapes()
	for _, name := range names {
		load := func() ([]float32, error) {
			w, err := read(name, shapes[name])
			if err == nil {
				add(name, w)
			}
			return w, err
		}
		tensors = append(tensors, safetensors.Tensor{Name: name, Shape: shapes[name], Load: load})
	}
	folder, err = c.Folder()
	return folder, tensors, closeFiles, err
}

// exportAdapters is [source.export] of the adapters alone.
func (s *source) exportAdapters(c *hf.Checkpoint) (hf.Folder, []safetensors.Tensor, error) {
	if s.weights != "" {
		return nil, nil, config.Invalid(fmt.Errorf("the adapters belong to weights that another run trained, %s: "+
			"use --merge to write both as one model", s.weights))
	}
	base, err := filepath.Abs(s.base)
	if err != nil {
		return nil, nil, err
	}
	adapters, err := s.adapters(c.Config)
	if err != nil {
		return nil, nil, err
	}
	var tensors []safetensors.Tensor
	for _, t := range adapters.Tensors() {
		load := func() ([]float32, error) { return t.Data, nil }
		tensors = append(tensors, safetensors.Tensor{Name: t.Name, Shape: t.Shape, Load: load})
	}
	folder, err := s.adapterFolder(base, *s.lora)
	return folder, tensors, err
}

// readTensor reads a tensor of finite numbers.
func readTensor(r *safetensors.Reader, name string, shape []int) ([]float32, error) {
	i := slices.IndexFunc(r.Tensors, func(t safetensors.Tensor) bool { return t.Name == name })
	if i < 0 || !slices.Equal(r.Tensors[i].Shape, shape) {
		return nil, fmt.Errorf("it is not in the file with the shape %v", shape)
	}
	p := model.NewParams([]model.Tensor{{Name: name, Shape: shape}})
	if err := r.Into(name, p.Flat); err != nil {
		return nil, err
	}
	return p.Flat, p.CheckFinite()
}

// Folder is the folder that the trained weights of a Llama or Qwen network are: a Hugging Face folder, of a reward
// model or a policy, or for adapters a PEFT folder. It has all files but the weights.
type Folder struct{ files hf.Folder }

// Folder returns the folder of the model's weights, of a reward model if reward is true; nil for a TinyLM.
func (m *Model) Folder(reward bool) (*Folder, error) {
	if !m.IsDecoder() {
		return nil, nil
	}
	if m.LoRA.Rank > 0 {
		f, err := m.source.adapterFolder(cmp.Or(m.source.weights, m.source.base), m.LoRA)
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
	if err := weights.Pull(); err != nil {
		return err
	}
	var tensors []safetensors.Tensor
	for _, x := range weights.Tensors() {
		tensors = append(tensors, safetensors.Tensor{Name: x.Name, Shape: x.Shape, Data: x.Data})
	}
	return f.files.Write(dir, "F32", tensors, metadata)
}

// VerifyFolder compares the files that [Folder.Write] wrote with their checksums, and returns the metadata.
func VerifyFolder(dir string) (map[string]string, error) { return hf.Verify(dir) }
