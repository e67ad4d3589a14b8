package model_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/model"
)

func TestMixInto(t *testing.T) {
	for _, c := range []struct {
		name               string
		alpha              float64
		ref, policy, mixed float32
	}{
		{"TRL's default 0.6", 0.6, 1, 2, 1.6},
		{"0 keeps", 0, 3, 7, 3},
		{"1 copies", 1, 3, 7, 7},
		{"0 keeps, though the policy diverged", 0, 3, float32(math.Inf(1)), 3},
		{"1 copies, though the reference is not finite", 1, float32(math.NaN()), 7, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref, policy := filled(3, c.ref), filled(3, c.policy)
			expect.OK(t, model.MixInto(ref, policy, c.alpha))
			if i := slices.IndexFunc(ref.Flat, func(v float32) bool { return v != c.mixed }); i >= 0 {
				t.Errorf("element %d is %v, want %v", i, ref.Flat[i], c.mixed)
			}
			if i := slices.IndexFunc(policy.Flat, func(v float32) bool { return v != c.policy }); i >= 0 {
				t.Errorf("the policy's element %d became %v", i, policy.Flat[i])
			}
		})
	}
	for _, alpha := range []float64{-0.1, 1.1, math.NaN()} {
		if err := model.MixInto(filled(3, 1), filled(3, 2), alpha); err == nil || !strings.Contains(err.Error(), "must be in [0, 1]") {
			t.Errorf("alpha %v: error %v", alpha, err)
		}
	}
	expect.Error(t, model.MixInto(filled(3, 1), filled(4, 2), 0.5), "shape [5 4]")
}

// filled has one number everywhere.
func filled(hidden int, v float32) *model.Params {
	p := params(5, hidden, 5, 1)
	for i := range p.Flat {
		p.Flat[i] = v
	}
	return p
}

// Each element is the formula's, rounded once. It lies between the two mixed numbers, and equals
// both if they are equal.
func TestMixIntoLaws(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		alpha := rapid.Float64Range(0, 1).Draw(r, "alpha")
		draw := func(name string) *model.Params {
			p := params(2, 2, 2, 1)
			copy(p.Flat, rapid.SliceOfN(rapid.Float32Range(-1e6, 1e6), len(p.Flat), len(p.Flat)).Draw(r, name))
			return p
		}
		ref, policy := draw("ref"), draw("policy")
		copy(policy.Flat[:4], ref.Flat[:4]) // agreed
		old := ref.Clone()
		expect.OK(r, model.MixInto(ref, policy, alpha))
		for i, got := range ref.Flat {
			a, b := old.Flat[i], policy.Flat[i]
			want := alpha*float64(b) + (1-alpha)*float64(a)
			if got != float32(want) && math.Abs(float64(got)-want) > 1e-7*math.Abs(want) {
				r.Fatalf("element %d: %v and %v at %v give %v, want %v", i, a, b, alpha, got, want)
			}
			if got < min(a, b) || got > max(a, b) {
				r.Fatalf("element %d: %v and %v at %v give %v", i, a, b, alpha, got)
			}
		}
	})
}

// device stores numbers outside Flat, and fails while err is set.
type device struct {
	p        *model.Params
	numbers  []float32
	err      error
	updates  int
	released bool
}

func stored(p *model.Params) *device {
	d := &device{p: p, numbers: slices.Clone(p.Flat)}
	p.Store(d)
	return d
}

func (d *device) Pull() error { copy(d.p.Flat, d.numbers); return d.err }
func (d *device) Push() error { copy(d.numbers, d.p.Flat); return d.err }
func (d *device) Zero()       { clear(d.numbers) }
func (d *device) Release()    { d.released = true }
func (d *device) Finite() bool {
	return !slices.ContainsFunc(d.numbers, func(v float32) bool { return v-v != 0 })
}

func (d *device) Update(*model.AdamW, *model.Params, *model.Params, float64, float64) (float64, error) {
	d.updates++
	return 3, d.err
}

// All functions read and write the parameters where they are stored.
func TestParamsOnADevice(t *testing.T) {
	p := filled(3, 1)
	d := stored(p)
	for i := range d.numbers {
		d.numbers[i] = 2
	}
	host := filled(3, 0)
	if err := host.Set(p); err != nil || host.Flat[0] != 2 {
		t.Errorf("Set from a device: %v, %v", host.Flat[0], err)
	}
	if err := p.Set(filled(3, 5)); err != nil || d.numbers[4] != 5 {
		t.Errorf("Set to a device: %v, %v", d.numbers[4], err)
	}
	if err := model.MixInto(p, filled(3, 7), 0.5); err != nil || d.numbers[4] != 6 {
		t.Errorf("MixInto: %v, %v", d.numbers[4], err)
	}
	if norm, err := model.NewAdamW(p, model.AdamWOptions{}).Step(p, p.Zeros(), 1, 1); norm != 3 || err != nil || d.updates != 1 {
		t.Errorf("Step: norm %v, %v, %d updates", norm, err, d.updates)
	}
	if name, ok := p.Finite(); !ok {
		t.Errorf("Finite: %q", name)
	}
	d.numbers[len(d.numbers)-1] = float32(math.NaN())
	if name, ok := p.Finite(); ok || name != "head.bias" {
		t.Errorf("Finite: %q, %v", name, ok)
	}
	if p.Zero(); d.numbers[len(d.numbers)-1] != 0 {
		t.Error("Zero left a number")
	}
	d.err = errors.New("the device failed")
	c := &model.Checkpoint{Params: p}
	_, encodeErr := c.Encode()
	for what, err := range map[string]error{"Set from": host.Set(p), "Set to": p.Set(host), "MixInto": model.MixInto(host, p, 0.5), "Encode": encodeErr} {
		if !errors.Is(err, d.err) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if p.Release(); !d.released || p.Storage() != nil {
		t.Error("Release kept the storage")
	}
}

func TestParams(t *testing.T) {
	p := params(5, 3, 5, 1)
	if p.Count() != 5*3+3*3+5*3+5 {
		t.Errorf("%d numbers", p.Count())
	}
	// The tensors are views, in the order of Flat.
	p.Tensors()[3].Data[4] = -1
	if p.Flat[p.Count()-1] != -1 {
		t.Error("the last tensor is not the end of Flat")
	}
	q := p.Clone()
	if q.Hash() != p.Hash() || !slices.Equal(q.Flat, p.Flat) {
		t.Error("a clone differs")
	}
	if q.Flat[7]++; q.Hash() == p.Hash() {
		t.Error("other numbers have the same hash")
	}
	if q.Zero(); slices.ContainsFunc(q.Flat, func(v float32) bool { return v != 0 }) {
		t.Error("Zero left a number")
	}
	expect.Error(t, q.Set(params(5, 3, 4, 1)), "40 numbers into 44")
	if name, ok := p.Finite(); !ok {
		t.Errorf("%s is not finite", name)
	}
	p.Flat[0], p.Tensors()[2].Data[1] = 1, float32(math.Inf(-1))
	if name, ok := p.Finite(); ok || name != "head.weight" {
		t.Errorf("Finite() = %q, %v, want head.weight, false", name, ok)
	}
}

// The hash depends on the numbers' bytes, not on names.
func TestHash(t *testing.T) {
	p := model.NewParams([]model.Tensor{{Name: "a", Shape: []int{2000}}})
	data := make([]byte, 0, 4*2000)
	for i := range p.Flat {
		p.Flat[i] = float32(i) / 3
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(p.Flat[i]))
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(data)); p.Hash() != want {
		t.Errorf("hash %s, want %s", p.Hash(), want)
	}
}

func TestMatch(t *testing.T) {
	form := func(names ...string) *model.Params {
		var out []model.Tensor
		for _, n := range names {
			out = append(out, model.Tensor{Name: n, Shape: []int{len(n), 2}})
		}
		return model.NewParams(out)
	}
	for _, c := range []struct {
		p, q *model.Params
		want string // "" = no error
	}{
		{form("a", "bb"), form("a", "bb"), ""},
		{form("a", "bb"), form("a"), `"bb" is missing`},
		{form("a", "bb"), form("bb", "a"), `"a" is missing or out of order`},
		{form("a"), form("a", "bb"), `"bb" is unknown`},
		{form("a"), model.NewParams([]model.Tensor{{Name: "a", Shape: []int{2, 1}}}), "shape [2 1], want [1 2]"},
	} {
		if err := c.p.Match(c.q); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func TestBatchCheck(t *testing.T) {
	row := func(prompt int, tokens ...int) []model.Row { return []model.Row{{Prompt: prompt, Tokens: tokens}} }
	for _, c := range []struct {
		name, want string // "" = no error
		b          model.Batch
	}{
		{"good", "", model.Batch{Prompts: [][]int{{1}, {19, 0}}, Rows: append(row(1, 19), row(0, 0)...)}},
		{"a prompt without completions", "", model.Batch{Prompts: [][]int{{1}, {2}}, Rows: row(1, 1)}},
		{"empty", "0 prompts, 0 completions", model.Batch{}},
		{"no completions", "1 prompts, 0 completions", model.Batch{Prompts: [][]int{{1}}}},
		{"empty prompt", "prompt 0: no tokens", model.Batch{Prompts: [][]int{{}}, Rows: row(0, 1)}},
		{"empty completion", "completion 0: no tokens", model.Batch{Prompts: [][]int{{1}}, Rows: row(0)}},
		{"token outside", "prompt 0: token 1 is 20, outside the vocabulary of 20", model.Batch{Prompts: [][]int{{1, 20}}, Rows: row(0, 1)}},
		{"negative token", "completion 0: token 0 is -1, outside", model.Batch{Prompts: [][]int{{1}}, Rows: row(0, -1)}},
		{"prompt outside", "continues prompt 1 of 1", model.Batch{Prompts: [][]int{{1}}, Rows: row(1, 1)}},
		{"negative prompt", "continues prompt -1 of 1", model.Batch{Prompts: [][]int{{1}}, Rows: row(-1, 1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.b.Check(20); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
