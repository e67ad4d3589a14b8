// Command asm writes the assembly of package kernel with avo. It is a separate module, so that the
// program does not depend on the generator. Run it by `go generate` in the kernel's folder.
//
// Each kernel is written once, over the vector type of an instruction set, so the AVX2 and the
// AVX-512 versions do the same operations on each element in the same order. The NEON versions follow
// them by hand, but share exp, sigmoid, tanh and log.
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
)

var families = map[string]func(){"gemm": genGemm, "pack": genPack, "gru": genGRU, "softmax": genSoftmax, "vec": genVec,
	"decoder": genDecoder, "bf16": genBF16, "neon": genNEON}

func main() {
	family := flag.String("family", "", "gemm, pack, gru, softmax, vec, decoder, bf16 or neon")
	flag.Parse()
	generate, ok := families[*family]
	if !ok {
		fmt.Fprintf(os.Stderr, "asm: unknown family %q\n", *family)
		os.Exit(2)
	}
	if *family == "neon" {
		generate()
		return
	}
	ConstraintExpr("!noasm")
	generate()
	pass.Compile = pass.Concat(pass.Compile, encodeEVEX)
	Generate()
}
