package bpe

import (
	"sync"
	"unicode"
)

// class is what the split patterns ask of a character.
type class uint8

const (
	other  class = iota
	letter       // \p{L}
	number       // \p{N}
	space        // \s: White_Space
)

// newLetters and newNumbers became letters and numbers in Unicode 15.1 and 16, which
// the tokenizers library uses; Go's tables are of Unicode 15.
var (
	newLetters = &unicode.RangeTable{
		R16: []unicode.Range16{{0x1c89, 0x1c8a, 1}, {0xa7cb, 0xa7cd, 1}, {0xa7da, 0xa7dc, 1}},
		R32: []unicode.Range32{
			{0x105c0, 0x105f3, 1}, {0x10d4a, 0x10d65, 1}, {0x10d6f, 0x10d85, 1}, {0x10ec2, 0x10ec4, 1}, {0x11380, 0x11389, 1},
			{0x1138b, 0x1138b, 1}, {0x1138e, 0x1138e, 1}, {0x11390, 0x113b5, 1}, {0x113b7, 0x113b7, 1}, {0x113d1, 0x113d1, 1},
			{0x113d3, 0x113d3, 1}, {0x11bc0, 0x11be0, 1}, {0x13460, 0x143fa, 1}, {0x16100, 0x1611d, 1}, {0x16d40, 0x16d6c, 1},
			{0x18cff, 0x18cff, 1}, {0x1e5d0, 0x1e5ed, 1}, {0x1e5f0, 0x1e5f0, 1}, {0x2ebf0, 0x2ee5d, 1},
		},
	}
	newNumbers = &unicode.RangeTable{
		R32: []unicode.Range32{
			{0x10d40, 0x10d49, 1}, {0x116d0, 0x116e3, 1}, {0x11bf0, 0x11bf9, 1}, {0x16130, 0x16139, 1}, {0x16d70, 0x16d79, 1},
			{0x1ccf0, 0x1ccf9, 1}, {0x1e5f1, 0x1e5fa, 1},
		},
	}
)

// planeZero holds the classes of the characters below 0x10000.
var planeZero = sync.OnceValue(func() *[0x10000]class {
	var out [0x10000]class
	for r := range out {
		out[r] = lookUp(rune(r))
	}
	return &out
})

func lookUp(r rune) class {
	switch {
	case unicode.In(r, unicode.L, newLetters):
		return letter
	case unicode.In(r, unicode.N, newNumbers):
		return number
	case unicode.Is(unicode.White_Space, r):
		return space
	}
	return other
}
