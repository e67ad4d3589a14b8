// Package elementary has elementary functions of float64 with the same bits on every processor.
//
// Those of Go's package math differ in the last bit between processors: Exp has its own assembly on
// each, and elsewhere the compiler may fuse x*y + z into one rounding, as it does on arm64. The
// functions here are those of Go 1.26 on amd64 with FMA, bit for bit, with every rounding written
// out: float64(x*y) + z rounds twice, math.FMA(x, y, z) once. Numbers that reach a file or the
// weights of a model are computed with them.
//
// They are derived from Go's package math, Copyright 2009 The Go Authors, which has a BSD-style
// license; that of Exp is due to Naoki Shibata's SLEEF, and the others to FreeBSD's msun and to
// Cephes: see there for the methods and the errors, which are below an ulp or close to it.
package elementary
