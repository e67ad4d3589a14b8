// Package elementary has elementary functions of float64 with the same bits on every processor.
//
// Those of Go's package math differ in the last bit between processors: Exp has its own assembly on
// each, and elsewhere the compiler may fuse x*y + z into one rounding, as it does on arm64. The
// functions here are those of Go 1.26 on amd64 with FMA, bit for bit, with every rounding written
// out: float64(x*y) + z rounds twice, math.FMA(x, y, z) once. Numbers that reach a file or the
// weights of a model are computed with them.
//
// The algorithms and their constants are those that Go's package math documents: of Exp, Naoki Shibata's
// SLEEF; of the others, FreeBSD's msun and Cephes. See there for the methods and the errors, which are
// below an ulp or close to it.
package elementary
