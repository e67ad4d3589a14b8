package fused

import (
	"errors"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"

	"grpo/internal/expect"
)

// TestRunError: the graph returns an operation's error unchanged, without the machine's program
// counter and instruction.
func TestRunError(t *testing.T) {
	why := errors.New("token 7 is not in the vocabulary")
	op := &operation{name: "broken", in: nil, out: scalarT, run: func([]G.Value) (G.Value, error) { return nil, why }}
	g := G.NewGraph()
	x := G.NewScalar(g, G.Float32, G.WithName("x"), G.WithValue(float32(1)))
	op.in = append(op.in, scalarT)
	op.wrt = []bool{false}
	expect.OK(t, expect.Err(G.ApplyOp(op, x)))
	vm := G.NewTapeMachine(g)
	defer vm.Close()
	err := vm.RunAll()
	if err == nil || !strings.Contains(err.Error(), "PC ") {
		t.Fatalf("the machine returned %v", err)
	}
	if got := runError(err); got != why {
		t.Errorf("got %v, want %v", got, why)
	}
	if got := runError(errors.New("its own")); got.Error() != "run the graph: its own" {
		t.Errorf("got %v", got)
	}
}
