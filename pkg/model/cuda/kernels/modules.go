//go:build withcuda

package kernels

import (
	"embed"
	"fmt"
	"strings"
)

// Module is a source for NVRTC with the names of its kernels (extern "C": the
// names are not mangled). Compile with --std=c++17 and
// --gpu-architecture=sm_NN, without fast math.
type Module struct {
	Name    string
	Source  string
	Kernels []string
}

//go:embed *.cu
var files embed.FS

// source concatenates files.
func source(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name + ".cu")
		if err != nil {
			panic(err) // the files are embedded
		}
		b.Write(text)
	}
	return b.String()
}

// Base is the module of all kernels that don't depend on the network's size.
func Base() Module {
	return Module{
		Name:   "base",
		Source: source("common", "softmax", "vec", "index", "step", "head", "softmax_block", "head_block", "pick", "sample"),
		Kernels: []string{
			Axpy, Add, GatherRows, ScatterAddRows, TableGradParts, ColSumParts, SumParts, GRUBiasGrad,
			SumSquaresParts, SumSquaresTotal, AdamW, GRUGatesForward, GRUGatesBackward,
			HeadForward, HeadBackward, HeadForward + ofBlocks, HeadBackward + ofBlocks, ValueForward, ValueBackward, SamplePick,
		},
	}
}

// Decoder is the module of the kernels that only decoders need. Attention has a module of its own:
// [AttentionPlan.Module].
func Decoder() Module {
	return Module{
		Name:    "decoder",
		Source:  source("common", "layer", "softmax", "softmax_block", "choose"),
		Kernels: append([]string{Choose, NextStep}, layerKernels...),
	}
}

// define returns macro definitions.
func define(pairs ...any) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "#define %v %v\n", pairs[i], pairs[i+1])
	}
	return b.String()
}
