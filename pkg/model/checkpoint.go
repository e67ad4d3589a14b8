package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"grpo/pkg/model/safetensors"
)

// Prefixes of a checkpoint's sets of tensors; the policy's weights have none.
const (
	firstMoment  = "adamw.m."
	secondMoment = "adamw.v."
	referenceSet = "ref."
	criticSet    = "critic."
)

// criticUpdates is the metadata key of the number of updates behind the
// critic's moments.
const criticUpdates = criticSet + "updates"

// Checkpoint is what a file holds.
type Checkpoint struct {
	Params    *Params
	M, V      *Params      // AdamW's moments, nil without
	Reference *Params      // a reference policy of the same size, nil without
	Critic    *CriticState // nil without
	Metadata  map[string]string
	// Sealed says of a checkpoint that was read that its file carried a checksum
	// of all its bytes, which was right: see [Checkpoint.EncodeSealed].
	Sealed bool
}

// set is a set of tensors of one form under one prefix.
type set struct {
	prefix   string
	params   **Params
	headRows int
}

// groups lists the sets in the order of the file. Those of a group stand in it
// together or not at all; the first one always does.
func (c *Checkpoint) groups(spec Spec, critic *CriticState) [][]set {
	v := spec.Vocab
	return [][]set{
		{{"", &c.Params, v}},
		{{firstMoment, &c.M, v}, {secondMoment, &c.V, v}},
		{{referenceSet, &c.Reference, v}},
		{{criticSet, &critic.params, 1}},
		{{criticSet + firstMoment, &critic.m, 1}, {criticSet + secondMoment, &critic.v, 1}},
	}
}

// Encode returns p as a safetensors file: see [Checkpoint.Encode]. A nil opt
// leaves the moments out.
func Encode(p *Params, opt *AdamW, metadata map[string]string) ([]byte, error) {
	c := Checkpoint{Params: p, Metadata: metadata}
	if opt != nil {
		c.M, c.V = opt.M, opt.V
	}
	return c.Encode()
}

// Encode returns a safetensors file of the policy's weights under PyTorch's
// names and, behind them, what else there is: the moments under the prefixes
// adamw.m. and adamw.v., the reference policy under ref., the critic under
// critic. (a TinyLM whose head has one row), its moments under critic.adamw.m.
// and critic.adamw.v., with the number of its updates in the metadata under
// critic.updates. PyTorch reads the weights out of such a file all the same.
// The same arguments give the same bytes. A set of another size than the
// policy's is an error that names it.
func (c *Checkpoint) Encode() ([]byte, error) {
	list, metadata, err := c.layout()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, list, metadata); err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	return b.Bytes(), nil
}

// EncodeSealed is [Checkpoint.Encode] with a checksum over the whole file in the
// metadata ([safetensors.WriteSealed]), by which a reader finds any damage.
func (c *Checkpoint) EncodeSealed() ([]byte, error) {
	list, metadata, err := c.layout()
	if err != nil {
		return nil, err
	}
	data, err := safetensors.WriteSealed(list, metadata)
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	return data, nil
}

// layout lists the tensors of the file in their order, and its metadata.
func (c *Checkpoint) layout() ([]safetensors.Tensor, map[string]string, error) {
	critic, metadata := CriticState{}, c.Metadata
	if _, ok := metadata[criticUpdates]; ok {
		return nil, nil, fmt.Errorf("encode checkpoint: the metadata key %q is the critic's own", criticUpdates)
	}
	if c.Critic != nil {
		critic = *c.Critic
	}
	if critic.m != nil {
		metadata = maps.Clone(metadata)
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[criticUpdates] = strconv.Itoa(critic.updates)
	}
	var list []safetensors.Tensor
	for _, group := range c.groups(c.Params.Spec, &critic) {
		for _, s := range group {
			p := *s.params
			if p == nil {
				continue
			}
			if err := p.Pull(); err != nil {
				return nil, nil, fmt.Errorf("encode checkpoint: %w", err)
			}
			if p.Spec != c.Params.Spec {
				return nil, nil, fmt.Errorf("encode checkpoint: the tensors %q are those of a %v, the policy is a %v", s.prefix+"*", p.Spec, c.Params.Spec)
			}
			for _, t := range p.Tensors() {
				list = append(list, safetensors.Tensor{Name: s.prefix + t.Name, Dtype: "F32", Shape: t.Shape, Data: t.Data})
			}
		}
	}
	return list, metadata, nil
}

// Read decodes a safetensors file of TinyLM weights; the size of the model
// follows from the shapes. A missing or surplus tensor and a wrong shape are
// errors that name it. So a file of weights alone, from PyTorch or an earlier
// version, is read, and half of a critic is not.
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

// ReadSpec returns the size of the model in the file at path, of which it reads
// the header only.
func ReadSpec(path string) (Spec, error) {
	f, err := safetensors.ReadHeader(path)
	if err != nil {
		return Spec{}, err
	}
	spec, err := specOf(byName(f))
	if err != nil {
		return Spec{}, fmt.Errorf("read checkpoint: %s: %w", path, err)
	}
	return spec, nil
}

// ReadWeights reads the weights of the file at path, which must be finite.
func ReadWeights(path string) (*Params, error) {
	c, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := c.Params.CheckFinite(); err != nil {
		return nil, fmt.Errorf("read checkpoint: %s: %w", path, err)
	}
	return c.Params, nil
}

// byName indexes tensors. A header can name a million of them: they are looked
// up, not searched for each.
func byName(f *safetensors.File) map[string]safetensors.Tensor {
	at := make(map[string]safetensors.Tensor, len(f.Tensors))
	for _, t := range f.Tensors {
		at[t.Name] = t
	}
	return at
}

func fromFile(f *safetensors.File) (*Checkpoint, error) {
	at := byName(f)
	spec, err := specOf(at)
	if err != nil {
		return nil, err
	}
	c, critic := &Checkpoint{Metadata: f.Metadata, Sealed: f.Sealed}, &CriticState{}
	groups := c.groups(spec, critic)
	known := map[string]bool{}
	for _, group := range groups {
		if !slices.ContainsFunc(group, func(s set) bool { return s.begun(f) }) {
			continue
		}
		for _, s := range group {
			if err := s.load(at, spec, known); err != nil {
				return nil, err
			}
		}
	}
	for _, t := range f.Tensors {
		if !known[t.Name] {
			return nil, fmt.Errorf("tensor %q has no place in a TinyLM of %d layers", t.Name, spec.Layers)
		}
	}
	if critic.params != nil {
		c.Critic = critic
	}
	text, has := f.Metadata[criticUpdates]
	if has != (critic.m != nil) {
		return nil, fmt.Errorf("the critic's moments and the metadata key %q must stand together", criticUpdates)
	}
	if has {
		if critic.updates, err = strconv.Atoi(text); err != nil || critic.updates < 0 {
			return nil, fmt.Errorf("metadata key %q is %q, want a number of updates", criticUpdates, text)
		}
		delete(c.Metadata, criticUpdates)
	}
	return c, nil
}

// begun reports whether any tensor of f stands under the set's prefix.
func (s set) begun(f *safetensors.File) bool {
	return slices.ContainsFunc(f.Tensors, func(t safetensors.Tensor) bool { return strings.HasPrefix(t.Name, s.prefix) })
}

// load reads the set out of the file's tensors and notes its names in known.
func (s set) load(at map[string]safetensors.Tensor, spec Spec, known map[string]bool) error {
	p := newParams(spec, s.headRows)
	for _, t := range p.Tensors() {
		name := s.prefix + t.Name
		got, ok := at[name]
		if !ok {
			return fmt.Errorf("tensor %q is missing: this is no TinyLM of %d layers", name, spec.Layers)
		}
		if !slices.Equal(got.Shape, t.Shape) {
			return fmt.Errorf("tensor %q has shape %v, a model of vocab %d and hidden %d has %v", name, got.Shape, spec.Vocab, spec.Hidden, t.Shape)
		}
		copy(t.Data, got.Data)
		known[name] = true
	}
	*s.params = p
	return nil
}

// specOf reads the size of the model off the shapes.
func specOf(at map[string]safetensors.Tensor) (Spec, error) {
	e, ok := at["embed.weight"]
	if !ok {
		return Spec{}, fmt.Errorf("tensor \"embed.weight\" is missing: this is no TinyLM")
	}
	if len(e.Shape) != 2 || e.Shape[0] < 1 || e.Shape[1] < 1 {
		return Spec{}, fmt.Errorf("tensor \"embed.weight\" has shape %v, want (vocab, hidden)", e.Shape)
	}
	s := Spec{Vocab: e.Shape[0], Hidden: e.Shape[1]}
	for {
		if _, ok := at[fmt.Sprintf("rnn.weight_hh_l%d", s.Layers)]; !ok {
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
	for _, t := range at {
		n := 1
		for _, d := range t.Shape {
			n *= d
		}
		have += n
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
