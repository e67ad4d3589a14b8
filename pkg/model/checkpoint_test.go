package model_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/model/safetensors"
)

// names are the tensors of the tests' checkpoints.
var names = []string{"embed.weight", "rnn.weight", "head.weight", "head.bias"}

// params are a network's parameters, with a head of the given number of rows.
func params(vocab, hidden, headRows int, scale float32) *model.Params {
	shapes := [][]int{{vocab, hidden}, {hidden, hidden}, {headRows, hidden}, {headRows}}
	form := make([]model.Tensor, len(names))
	for i, name := range names {
		form[i] = model.Tensor{Name: name, Shape: shapes[i]}
	}
	p := model.NewParams(form)
	for i := range p.Flat {
		p.Flat[i] = scale * float32(i+1)
	}
	return p
}

// smallCheckpoint has every part that a file can have.
func smallCheckpoint() *model.Checkpoint {
	return &model.Checkpoint{
		Params: params(6, 2, 6, 1), M: params(6, 2, 6, 2), V: params(6, 2, 6, 3), Reference: params(6, 2, 6, 4),
		Critic:   &model.CriticState{Params: params(6, 2, 1, 5), M: params(6, 2, 1, 6), V: params(6, 2, 1, 7), Updates: 12},
		Metadata: map[string]string{"k": "v"},
	}
}

func encode(t testing.TB, c *model.Checkpoint) []byte {
	t.Helper()
	data, err := c.Encode()
	expect.OK(t, err)
	return data
}

func decode(data []byte) (*model.Checkpoint, error) {
	return model.ReadCheckpoint("x", bytes.NewReader(data), int64(len(data)))
}

// A set's tensors have its prefix; a file without a set has none of its names. Files read back.
func TestCheckpointNames(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(c *model.Checkpoint)
		sets []string
	}{
		{"all", func(*model.Checkpoint) {}, []string{"", "adamw.m.", "adamw.v.", "ref.", "critic.", "critic.adamw.m.", "critic.adamw.v."}},
		{"weights", func(c *model.Checkpoint) { *c = model.Checkpoint{Params: c.Params} }, []string{""}},
		{"weights and moments", func(c *model.Checkpoint) { c.Reference, c.Critic = nil, nil }, []string{"", "adamw.m.", "adamw.v."}},
		{"reference", func(c *model.Checkpoint) { c.M, c.V, c.Critic = nil, nil, nil }, []string{"", "ref."}},
		{"critic without moments", func(c *model.Checkpoint) { c.Reference, c.Critic.M, c.Critic.V = nil, nil, nil }, []string{"", "adamw.m.", "adamw.v.", "critic."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := smallCheckpoint()
			c.cut(in)
			data := encode(t, in)
			f, err := safetensors.Read("x", bytes.NewReader(data), int64(len(data)))
			expect.OK(t, err)
			var got, want []string
			for _, x := range f.Tensors {
				got = append(got, x.Name)
			}
			for _, s := range c.sets {
				for _, n := range names {
					want = append(want, s+n)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("names %q, want %q", got, want)
			}
			if w, ok := f.Get("critic.head.weight"); ok && !slices.Equal(w.Shape, []int{1, 2}) {
				t.Errorf("critic.head.weight has shape %v", w.Shape)
			}
			out, err := decode(data)
			expect.OK(t, err)
			if (out.M == nil) != (in.M == nil) || (out.V == nil) != (in.V == nil) || (out.Reference == nil) != (in.Reference == nil) || (out.Critic == nil) != (in.Critic == nil) {
				t.Errorf("read %+v", out)
			}
			if out.Critic != nil && out.Critic.M != nil && out.Critic.Updates != 12 {
				t.Errorf("the critic has made %d updates, want 12", out.Critic.Updates)
			}
			if !slices.Equal(out.Params.Flat, in.Params.Flat) || !maps.Equal(out.Metadata, in.Metadata) {
				t.Errorf("read %v, %v", out.Params.Flat, out.Metadata)
			}
			if !bytes.Equal(encode(t, out), data) {
				t.Error("what was read is written with other bytes")
			}
		})
	}
}

func TestReadIsStrict(t *testing.T) {
	whole := encode(t, smallCheckpoint())
	for _, c := range []struct {
		name, want string
		spoil      func(f *safetensors.File)
	}{
		{"unknown tensor", `tensor "extra" is missing`, func(f *safetensors.File) {
			f.Tensors = append(f.Tensors, safetensors.Tensor{Name: "extra", Shape: []int{1}, Data: []float32{1}})
		}},
		{"unknown tensor under a known prefix", `the set "critic.adamw.m.*": tensor "rnn.other" is missing`, func(f *safetensors.File) {
			f.Tensors = append(f.Tensors, safetensors.Tensor{Name: "critic.rnn.other", Shape: []int{1}, Data: []float32{1}})
		}},
		{"part of the reference", `the set "ref.*": tensor "head.bias" is missing`, drop("ref.head.bias")},
		{"a moment of the policy", `tensor "adamw.v.embed.weight" is missing`, drop("adamw.v.")},
		{"second moments of the critic", `tensor "critic.adamw.v.embed.weight" is missing`, drop("critic.adamw.v.")},
		{"weights of the critic", `the tensors "critic.adamw.m.*" are there without`, drop("critic.embed", "critic.rnn", "critic.head")},
		{"both moments of the critic", `metadata key "critic.updates" must come together`, drop("critic.adamw.")},
		{"number of updates", `metadata key "critic.updates" must come together`, func(f *safetensors.File) { delete(f.Metadata, "critic.updates") }},
		{"negative updates", `"critic.updates" is "-1"`, func(f *safetensors.File) { f.Metadata["critic.updates"] = "-1" }},
		{"no number", `"critic.updates" is "x"`, func(f *safetensors.File) { f.Metadata["critic.updates"] = "x" }},
		{"a policy's head on the critic", `the set "critic.adamw.m.*": tensor "head.bias" has shape [1], want [6]`, func(f *safetensors.File) {
			i := slices.IndexFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == "critic.head.bias" })
			f.Tensors[i].Shape, f.Tensors[i].Data = []int{6}, make([]float32, 6)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := safetensors.Read("x", bytes.NewReader(whole), int64(len(whole)))
			expect.OK(t, err)
			c.spoil(f)
			data, err := safetensors.Encode(f.Tensors, f.Metadata)
			expect.OK(t, err)
			expect.Error(t, expect.Err(decode(data)), c.want)
		})
	}
}

// drop removes the tensors that start with any of the prefixes.
func drop(prefixes ...string) func(f *safetensors.File) {
	return func(f *safetensors.File) {
		f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(t.Name, p) })
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(c *model.Checkpoint)
	}{
		{"a reference of another size", `the set "ref.*": tensor "embed.weight" has shape [6 3]`, func(c *model.Checkpoint) { c.Reference = params(6, 3, 6, 1) }},
		{"moments of another critic", `the set "critic.adamw.m.*": tensor "embed.weight" has shape [6 3]`, func(c *model.Checkpoint) { c.Critic.M = params(6, 3, 1, 1) }},
		{"the critic's metadata key", `"critic.updates" is the critic's own`, func(c *model.Checkpoint) { c.Metadata["critic.updates"] = "1" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := smallCheckpoint()
			c.spoil(x)
			expect.Error(t, expect.Err(x.Encode()), c.want)
		})
	}
}

// A checkpoint with a checksum has the same content, and any change of it is detected.
func TestChecksummedCheckpoint(t *testing.T) {
	in := smallCheckpoint()
	data, err := in.EncodeChecksummed()
	expect.OK(t, err)
	out, err := decode(data)
	expect.OK(t, err)
	plain, err := decode(encode(t, in))
	expect.OK(t, err)
	if !out.Checksummed || plain.Checksummed {
		t.Errorf("checksummed %v, plain %v", out.Checksummed, plain.Checksummed)
	}
	if !maps.Equal(out.Metadata, plain.Metadata) || !bytes.Equal(encode(t, out), encode(t, in)) {
		t.Error("the file with a checksum has other content")
	}
	data[len(data)-1] ^= 1 // the sign of a weight
	expect.Error(t, expect.Err(decode(data)), "checksum")
	in.Metadata["critic.updates"] = "1"
	if _, err := in.EncodeChecksummed(); err == nil {
		t.Error("a key of the critic's own was taken")
	}
}

// TestReadWeightsFile: the policy's parameters are read without the other sets.
func TestReadWeightsFile(t *testing.T) {
	p := model.NewParams([]model.Tensor{{Name: "a", Shape: []int{2}}, {Name: "b", Shape: []int{1, 3}}})
	for i := range p.Flat {
		p.Flat[i] = float32(i + 1)
	}
	c := model.Checkpoint{Params: p, M: p.Zeros(), V: p.Zeros(), Reference: p.Zeros()}
	data, err := c.EncodeChecksummed()
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "c.safetensors")
	expect.OK(t, os.WriteFile(path, data, 0o666))
	got, err := model.ReadWeightsFile(path)
	if err != nil || p.Match(got) != nil || !slices.Equal(got.Flat, p.Flat) {
		t.Fatalf("got %v, %v", got, err)
	}
}
