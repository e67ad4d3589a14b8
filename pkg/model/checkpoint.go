package model

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"grpo/pkg/model/safetensors"
)

// Prefixes of a checkpoint's sets of tensors; the policy's parameters have none.
const (
	firstMoment  = "adamw.m."
	secondMoment = "adamw.v."
	referenceSet = "ref."
	samplerSet   = "sampler."
	criticSet    = "critic."
)

// criticUpdates is the metadata key of the number of updates of the critic.
const criticUpdates = criticSet + "updates"

// Checkpoint is the content of a file, for any network.
type Checkpoint struct {
	Params    *Params
	M, V      *Params      // AdamW's moments, nil without
	Reference *Params      // a reference model of the policy's form, nil without
	Sampler   *Params      // an earlier policy that samples, nil without
	Critic    *CriticState // nil without
	Metadata  map[string]string
	// Checksummed is true if the file that was read had a checksum, and it matched: see
	// [Checkpoint.EncodeChecksummed].
	Checksummed bool
}

// CriticState is a critic's parameters, moments and number of updates.
type CriticState struct {
	Params  *Params
	M, V    *Params // nil without moments
	Updates int
}

// set is the tensors under one prefix; form is the set whose names and shapes it must match.
type set struct {
	prefix       string
	params, form **Params
	with         **Params // the set that must be in the same file: both or neither; nil: none
}

// sets lists the sets in the order of the file. A prefix comes before those that start with it.
func (c *Checkpoint) sets(critic *CriticState) []set {
	return []set{
		{"", &c.Params, &c.Params, nil},
		{firstMoment, &c.M, &c.Params, &c.V},
		{secondMoment, &c.V, &c.Params, &c.M},
		{referenceSet, &c.Reference, &c.Params, nil},
		{samplerSet, &c.Sampler, &c.Params, nil},
		{criticSet, &critic.Params, &critic.Params, nil},
		{criticSet + firstMoment, &critic.M, &critic.Params, &critic.V},
		{criticSet + secondMoment, &critic.V, &critic.Params, &critic.M},
	}
}

// Encode returns a safetensors file of the policy's parameters under the network's own names and,
// after them, the optional parts: moments under adamw.m. and adamw.v., the reference model under
// ref., the policy that samples under sampler., the critic under critic., its moments under
// critic.adamw.m. and critic.adamw.v., with the number of its updates in the metadata under
// critic.updates. The same arguments give the same bytes. A set of the wrong form is an error that
// names it.
func (c *Checkpoint) Encode() ([]byte, error) { return c.encode(safetensors.Encode) }

// EncodeChecksummed is [Checkpoint.Encode] with a checksum over the whole file in the metadata, so
// that a reader finds any damage.
func (c *Checkpoint) EncodeChecksummed() ([]byte, error) {
	return c.encode(safetensors.EncodeChecksummed)
}

func (c *Checkpoint) encode(as func([]safetensors.Tensor, map[string]string) ([]byte, error)) ([]byte, error) {
	list, metadata, err := c.layout()
	if err != nil {
		return nil, err
	}
	data, err := as(list, metadata)
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
	if critic.M != nil {
		metadata = map[string]string{criticUpdates: strconv.Itoa(critic.Updates)}
		maps.Copy(metadata, c.Metadata)
	}
	var list []safetensors.Tensor
	for _, s := range c.sets(&critic) {
		p := *s.params
		if p == nil {
			continue
		}
		if err := (*s.form).Match(p); err != nil {
			return nil, nil, fmt.Errorf("encode checkpoint: the set %q: %w", s.prefix+"*", err)
		}
		if err := p.Pull(); err != nil {
			return nil, nil, fmt.Errorf("encode checkpoint: %w", err)
		}
		for _, t := range p.Tensors() {
			list = append(list, safetensors.Tensor{Name: s.prefix + t.Name, Dtype: "F32", Shape: t.Shape, Data: t.Data})
		}
	}
	return list, metadata, nil
}

// Write writes the file of [Checkpoint.Encode], without a copy of it in memory.
func (c *Checkpoint) Write(w io.Writer) error {
	list, metadata, err := c.layout()
	if err != nil {
		return err
	}
	return safetensors.Write(w, list, metadata)
}

// WriteChecksummed writes the file of [Checkpoint.EncodeChecksummed], without a copy of it in memory.
func (c *Checkpoint) WriteChecksummed(w safetensors.Output) error {
	list, metadata, err := c.layout()
	if err != nil {
		return err
	}
	return safetensors.WriteChecksummed(w, list, metadata)
}

// ReadCheckpoint decodes a safetensors file into its sets, each with the tensors in the order of
// their data. The network checks which tensors the parameters must have. An incomplete set, or one
// whose form differs from the parameters', is an error that names the tensor.
func ReadCheckpoint(name string, r io.ReaderAt, size int64) (*Checkpoint, error) {
	f, err := safetensors.NewReader(name, r, size)
	return readCheckpoint(name, f, err)
}

// ReadCheckpointFile is [ReadCheckpoint] of the file at path.
func ReadCheckpointFile(path string) (*Checkpoint, error) {
	f, err := safetensors.Open(path)
	return readCheckpoint(path, f, err)
}

// ReadWeightsFile reads the policy's parameters only from the checkpoint at path.
func ReadWeightsFile(path string) (*Params, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sets := new(Checkpoint).sets(new(CriticState))
	p, err := readSet(f, sets[0], members(f, sets)[0])
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %s: %w", path, err)
	}
	return p, nil
}

// members sorts the tensors of a file by their set, without its prefix.
func members(f *safetensors.Reader, sets []set) [][]Tensor {
	out := make([][]Tensor, len(sets))
	for _, t := range f.Tensors {
		k := len(sets) - 1
		for !strings.HasPrefix(t.Name, sets[k].prefix) {
			k--
		}
		out[k] = append(out[k], Tensor{Name: strings.TrimPrefix(t.Name, sets[k].prefix), Shape: t.Shape})
	}
	return out
}

func readSet(f *safetensors.Reader, s set, form []Tensor) (*Params, error) {
	p := NewParams(form)
	for _, t := range p.Tensors() {
		if err := f.Into(s.prefix+t.Name, t.Data); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", s.prefix+t.Name, err)
		}
	}
	return p, nil
}

func readCheckpoint(name string, f *safetensors.Reader, err error) (*Checkpoint, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &Checkpoint{Metadata: f.Metadata, Checksummed: f.Checksummed}
	if err := c.load(f); err != nil {
		return nil, fmt.Errorf("read checkpoint: %s: %w", name, err)
	}
	return c, nil
}

func (c *Checkpoint) load(f *safetensors.Reader) error {
	critic := &CriticState{}
	sets := c.sets(critic)
	for k, form := range members(f, sets) {
		if len(form) == 0 {
			continue
		}
		p, err := readSet(f, sets[k], form)
		if err != nil {
			return err
		}
		*sets[k].params = p
	}
	if c.Params == nil {
		return errors.New("no weights")
	}
	for _, s := range sets {
		if *s.params == nil {
			if s.with != nil && *s.with != nil {
				return fmt.Errorf("tensor %q is missing", s.prefix+(*s.with).Tensors()[0].Name)
			}
			continue
		}
		if *s.form == nil {
			return fmt.Errorf("the tensors %q are there without those that they belong to", s.prefix+"*")
		}
		if err := (*s.form).Match(*s.params); err != nil {
			return fmt.Errorf("the set %q: %w", s.prefix+"*", err)
		}
	}
	if critic.Params != nil {
		c.Critic = critic
	}
	text, has := c.Metadata[criticUpdates]
	if has != (critic.M != nil) {
		return fmt.Errorf("the critic's moments and the metadata key %q must come together", criticUpdates)
	}
	if has {
		var err error
		if critic.Updates, err = strconv.Atoi(text); err != nil || critic.Updates < 0 {
			return fmt.Errorf("metadata key %q is %q, want a number of updates", criticUpdates, text)
		}
		delete(c.Metadata, criticUpdates)
	}
	return nil
}
