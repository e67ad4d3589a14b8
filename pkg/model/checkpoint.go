package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"grpo/pkg/model/safetensors"
)

// Prefixes of the moments in a checkpoint that training can go on from.
const (
	firstMoment  = "adamw.m."
	secondMoment = "adamw.v."
)

// Encode returns p as a safetensors file under PyTorch's names. With opt, its
// moments stand behind the weights under the prefixes adamw.m. and adamw.v.;
// PyTorch reads the weights out of such a file all the same.
func Encode(p *Params, opt *AdamW, metadata map[string]string) ([]byte, error) {
	var list []safetensors.Tensor
	add := func(prefix string, p *Params) {
		for _, t := range p.Tensors() {
			list = append(list, safetensors.Tensor{Name: prefix + t.Name, Dtype: "F32", Shape: t.Shape, Data: t.Data})
		}
	}
	add("", p)
	if opt != nil {
		add(firstMoment, opt.M)
		add(secondMoment, opt.V)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, list, metadata); err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	return b.Bytes(), nil
}

// Checkpoint is what a file held.
type Checkpoint struct {
	Params   *Params
	M, V     *Params // nil without moments
	Metadata map[string]string
}

// Read decodes a safetensors file of TinyLM weights; the size of the model
// follows from the shapes. A missing or surplus tensor and a wrong shape are
// errors that name it.
func Read(name string, r io.ReaderAt, size int64) (*Checkpoint, error) {
	f, err := safetensors.Read(name, r, size)
	if err != nil {
		return nil, err
	}
	c, err := fromFile(f)
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %s: %w", name, err)
	}
	return c, nil
}

// ReadFile is [Read] of the file at path.
func ReadFile(path string) (*Checkpoint, error) {
	f, err := safetensors.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := fromFile(f)
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %s: %w", path, err)
	}
	return c, nil
}

func fromFile(f *safetensors.File) (*Checkpoint, error) {
	spec, err := specOf(f)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Metadata: f.Metadata}
	used := 0
	load := func(prefix string) (*Params, error) {
		p, err := NewParams(spec)
		if err != nil {
			return nil, err
		}
		for _, t := range p.Tensors() {
			got, ok := f.Get(prefix + t.Name)
			if !ok {
				return nil, fmt.Errorf("tensor %q is missing: this is no TinyLM of %d layers", prefix+t.Name, spec.Layers)
			}
			if !slices.Equal(got.Shape, t.Shape) {
				return nil, fmt.Errorf("tensor %q has shape %v, a model of vocab %d and hidden %d has %v", prefix+t.Name, got.Shape, spec.Vocab, spec.Hidden, t.Shape)
			}
			copy(t.Data, got.Data)
			used++
		}
		return p, nil
	}
	if c.Params, err = load(""); err != nil {
		return nil, err
	}
	hasMoments := slices.ContainsFunc(f.Tensors, func(t safetensors.Tensor) bool {
		return strings.HasPrefix(t.Name, firstMoment) || strings.HasPrefix(t.Name, secondMoment)
	})
	if hasMoments {
		if c.M, err = load(firstMoment); err != nil {
			return nil, err
		}
		if c.V, err = load(secondMoment); err != nil {
			return nil, err
		}
	}
	if used != len(f.Tensors) {
		known := map[string]bool{}
		for _, prefix := range []string{"", firstMoment, secondMoment} {
			for _, t := range c.Params.Tensors() {
				known[prefix+t.Name] = true
			}
		}
		for _, t := range f.Tensors {
			if !known[t.Name] {
				return nil, fmt.Errorf("tensor %q has no place in a TinyLM of %d layers", t.Name, spec.Layers)
			}
		}
	}
	return c, nil
}

// specOf reads the size of the model off the shapes.
func specOf(f *safetensors.File) (Spec, error) {
	e, ok := f.Get("embed.weight")
	if !ok {
		return Spec{}, fmt.Errorf("tensor \"embed.weight\" is missing: this is no TinyLM")
	}
	if len(e.Shape) != 2 || e.Shape[0] < 1 || e.Shape[1] < 1 {
		return Spec{}, fmt.Errorf("tensor \"embed.weight\" has shape %v, want (vocab, hidden)", e.Shape)
	}
	s := Spec{Vocab: e.Shape[0], Hidden: e.Shape[1]}
	for {
		if _, ok := f.Get(fmt.Sprintf("rnn.weight_hh_l%d", s.Layers)); !ok {
			break
		}
		s.Layers++
	}
	if s.Layers == 0 {
		return s, fmt.Errorf("tensor \"rnn.weight_hh_l0\" is missing: this is no TinyLM")
	}
	// The sizes stand in a header that may be damaged: ask for no more memory
	// than a file of these tensors would hold.
	var have int
	for _, t := range f.Tensors {
		have += len(t.Data)
	}
	if s.Hidden > math.MaxInt32 || s.Vocab > math.MaxInt32 || s.Parameters() > have {
		return s, fmt.Errorf("%v needs more numbers than the file's %d", s, have)
	}
	return s, nil
}

// Hash is the SHA-256 of the weights as little-endian float32 in the order of
// the checkpoint, in hex. Equal weights have equal hashes whatever file they
// came from.
func (p *Params) Hash() string {
	h := sha256.New()
	var buf [4096]byte
	for i := 0; i < len(p.Flat); {
		n := 0
		for ; n+4 <= len(buf) && i < len(p.Flat); i++ {
			u := math.Float32bits(p.Flat[i])
			buf[n], buf[n+1], buf[n+2], buf[n+3] = byte(u), byte(u>>8), byte(u>>16), byte(u>>24)
			n += 4
		}
		h.Write(buf[:n])
	}
	return hex.EncodeToString(h.Sum(nil))
}
