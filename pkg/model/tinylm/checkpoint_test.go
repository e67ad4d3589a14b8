package tinylm

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/safetensors"
	"grpo/pkg/model/tinylm/tokenizer"
)

// actorCritic is a small run of PPO's form: a policy and a reference that
// follows it, a critic, two optimizers.
type actorCritic struct {
	policy, ref *Weights
	opt         *model.AdamW
	learner     *Learner
	scorer      *Scorer
	critic      *Critic
}

func newActorCritic(t testing.TB, pool *kernel.Pool, policy, ref *Weights) *actorCritic {
	a := &actorCritic{policy: policy, ref: ref, critic: newCritic(t, policy, pool)}
	a.opt = model.NewAdamW(policy.Params, model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.01})
	var err error
	if a.learner, err = NewLearner(policy, 1, pool); err != nil {
		t.Fatal(err)
	}
	if a.scorer, err = NewScorer(ref, 1, pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.learner.Close(), a.scorer.Close() })
	return a
}

// step makes an update in which everything depends on everything.
func (a *actorCritic) step(t testing.TB, b *model.Batch) {
	t.Helper()
	n := float64(tokensOf(b))
	ref, err := a.scorer.Score(b)
	if err != nil {
		t.Fatal(err)
	}
	old := values(t, a.critic, b)
	a.learner.ZeroGrads()
	if _, err := a.learner.Accumulate(b, func(m *model.TokenMatrix) (float64, error) {
		for i, in := range m.Mask {
			if in {
				m.DLogProbs[i] = (old.Values[i] - 0.5 + 0.1*(m.LogProbs[i]-ref.LogProbs[i])) / n
			}
		}
		return 0, nil
	}); err != nil {
		t.Fatal(err)
	}
	a.opt.Step(a.policy.Params, a.learner.Grads(), 1e-2, 1)
	a.critic.ZeroGrads()
	accumulate(t, a.critic, b, regression(int(n), 0))
	a.critic.Step(2e-2, 1)
	if err := model.MixInto(a.ref.Params, a.policy.Params, 0.6); err != nil {
		t.Fatal(err)
	}
}

func (a *actorCritic) checkpoint(metadata map[string]string) *model.Checkpoint {
	return &model.Checkpoint{Params: a.policy.Params, M: a.opt.M, V: a.opt.V, Reference: a.ref.Params, Critic: a.critic.State(), Metadata: metadata}
}

// weightsOf are the network's views of p.
func weightsOf(t testing.TB, p *model.Params) *Weights {
	t.Helper()
	w, err := WeightsOf(p)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func encode(t testing.TB, c *model.Checkpoint) []byte {
	t.Helper()
	data, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(data []byte) (*model.Checkpoint, error) {
	c, err := model.ReadCheckpoint("x", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	_, err = WeightsOf(c.Params)
	return c, err
}

// A run that is cut at a checkpoint and goes on in another process has the bits
// of one that was not.
func TestRunWithCriticAndReferenceGoesOnExactly(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	policy := randomModel(t, Spec{tokenizer.VocabSize, 16, 2}, 1)
	b := randomBatch(t, policy, 6, 3, 12)
	whole := newActorCritic(t, pool, policy, policy.Clone())
	for range 3 {
		whole.step(t, b)
	}
	metadata := map[string]string{"state": "3"}
	data := encode(t, whole.checkpoint(metadata))
	for range 3 {
		whole.step(t, b)
	}

	c, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(metadata) != 1 || !maps.Equal(c.Metadata, metadata) {
		t.Errorf("metadata %v, want %v", c.Metadata, metadata)
	}
	if !bytes.Equal(encode(t, c), data) {
		t.Error("what was read is written with other bytes")
	}
	rest := newActorCritic(t, pool, weightsOf(t, c.Params), weightsOf(t, c.Reference))
	rest.opt.M, rest.opt.V, rest.opt.T = c.M, c.V, 3
	if err := rest.critic.Restore(c.Critic); err != nil {
		t.Fatal(err)
	}
	if rest.critic.optimizer.T != 3 {
		t.Errorf("the critic goes on after update %d, want 3", rest.critic.optimizer.T)
	}
	for range 3 {
		rest.step(t, b)
	}
	if !bytes.Equal(encode(t, rest.checkpoint(nil)), encode(t, whole.checkpoint(nil))) {
		t.Error("after the cut the run has other bits")
	}
}

// smallCheckpoint has all that a file can hold, of a model of one layer.
func smallCheckpoint(t testing.TB) *model.Checkpoint {
	p := randomModel(t, Spec{6, 2, 1}, 1)
	a := newActorCritic(t, nil, p, p.Clone())
	a.critic.optimizer.T = 12
	return a.checkpoint(map[string]string{"k": "v"})
}

// Names and shapes are PyTorch's; a file without a set has none of its names.
func TestCheckpointNames(t *testing.T) {
	base := []string{"embed.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0", "head.weight", "head.bias"}
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
			in := smallCheckpoint(t)
			c.cut(in)
			data := encode(t, in)
			f, err := safetensors.Read("x", bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, x := range f.Tensors {
				got = append(got, x.Name)
			}
			for _, s := range c.sets {
				for _, n := range base {
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
			if err != nil {
				t.Fatal(err)
			}
			if (out.M == nil) != (in.M == nil) || (out.V == nil) != (in.V == nil) || (out.Reference == nil) != (in.Reference == nil) || (out.Critic == nil) != (in.Critic == nil) {
				t.Errorf("read %+v", out)
			}
			if !bytes.Equal(encode(t, out), data) {
				t.Error("what was read is written with other bytes")
			}
		})
	}
}

func TestReadIsStrict(t *testing.T) {
	whole := encode(t, smallCheckpoint(t))
	for _, c := range []struct {
		name, want string
		spoil      func(f *safetensors.File)
	}{
		{"unknown tensor", `tensor "extra" is missing`, func(f *safetensors.File) {
			f.Tensors = append(f.Tensors, safetensors.Tensor{Name: "extra", Shape: []int{1}, Data: []float32{1}})
		}},
		{"unknown tensor under a known prefix", `the set "critic.adamw.m.*": tensor "rnn.weight_ih_l1" is missing`, func(f *safetensors.File) {
			f.Tensors = append(f.Tensors, safetensors.Tensor{Name: "critic.rnn.weight_ih_l1", Shape: []int{1}, Data: []float32{1}})
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
			if err != nil {
				t.Fatal(err)
			}
			c.spoil(f)
			var b bytes.Buffer
			if err := safetensors.Write(&b, f.Tensors, f.Metadata); err != nil {
				t.Fatal(err)
			}
			if _, err := decode(b.Bytes()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

// drop removes the tensors that begin with any of the prefixes.
func drop(prefixes ...string) func(f *safetensors.File) {
	return func(f *safetensors.File) {
		f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(t.Name, p) })
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	other := randomModel(t, Spec{6, 3, 1}, 1)
	for _, c := range []struct {
		name, want string
		spoil      func(c *model.Checkpoint)
	}{
		{"a reference of another size", `the set "ref.*": tensor "embed.weight" has shape [6 3]`, func(c *model.Checkpoint) { c.Reference = other.Params }},
		{"moments of another critic", `the set "critic.adamw.m.*": tensor "embed.weight" has shape [6 3]`, func(c *model.Checkpoint) { c.Critic.M = newCritic(t, other, nil).State().M }},
		{"the critic's metadata key", `"critic.updates" is the critic's own`, func(c *model.Checkpoint) { c.Metadata["critic.updates"] = "1" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := smallCheckpoint(t)
			c.spoil(x)
			if _, err := x.Encode(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

// A checkpoint with a checksum holds the same, says that it is whole, and
// PyTorch's names are where they were.
func TestChecksummedCheckpoint(t *testing.T) {
	in := smallCheckpoint(t)
	data, err := in.EncodeChecksummed()
	if err != nil {
		t.Fatal(err)
	}
	out, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := decode(encode(t, in))
	if err != nil {
		t.Fatal(err)
	}
	if !out.Checksummed || plain.Checksummed {
		t.Errorf("checksummed %v, plain %v", out.Checksummed, plain.Checksummed)
	}
	if !maps.Equal(out.Metadata, plain.Metadata) || !bytes.Equal(encode(t, out), encode(t, in)) {
		t.Error("the file with a checksum holds something else")
	}
	data[len(data)-1] ^= 1 // the sign of a weight, or a hair's breadth of it
	if _, err := decode(data); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a changed weight: %v", err)
	}
	in.Metadata["critic.updates"] = "1"
	if _, err := in.EncodeChecksummed(); err == nil {
		t.Error("a key of the critic's own was taken")
	}
}
