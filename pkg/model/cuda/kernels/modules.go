//go:build withcuda

package kernels

import (
	_ "embed"
	"fmt"
	"strings"
)

// Module is a source to hand to NVRTC, with the names of its kernels (extern
// "C": the names are not mangled). Compile with --std=c++17 and
// --gpu-architecture=sm_NN, without fast math; the text of Source decides the
// result, so its hash may name a cached one.
type Module struct {
	Name    string
	Source  string
	Kernels []string
}

//go:embed common.cu
var commonSource string

//go:embed softmax.cu
var softmaxSource string

//go:embed exchange.cu
var exchangeSource string

//go:embed vec.cu
var vecSource string

//go:embed index.cu
var indexSource string

//go:embed step.cu
var stepSource string

//go:embed head.cu
var headSource string

//go:embed pick.cu
var pickSource string

//go:embed sample.cu
var sampleSource string

//go:embed gru.cu
var gruSource string

//go:embed gru_backward.cu
var gruBackwardSource string

//go:embed rollout.cu
var rolloutSource string

// Base is the module of all kernels that don't depend on the network's size.
func Base() Module {
	return Module{
		Name:   "base",
		Source: commonSource + softmaxSource + vecSource + indexSource + stepSource + headSource + pickSource + sampleSource,
		Kernels: []string{
			Fill, Axpy, Add, Scale, GatherRows, ScatterAddRows, TableGradParts, ColSumParts, SumParts, GRUBiasGrad,
			SumSquaresParts, SumSquaresTotal, AdamW, GRUGatesForward, GRUGatesBackward,
			HeadForward, HeadBackward, ValueForward, ValueBackward, SamplePick,
		},
	}
}

// define prefixes a source with macros.
func define(pairs ...any) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "#define %v %v\n", pairs[i], pairs[i+1])
	}
	return b.String()
}
