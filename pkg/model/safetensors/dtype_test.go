package safetensors

import (
	"encoding/binary"
	"math"
	"testing"
)

// Every binary16, against its definition: (-1)^s * 2^(e-15) * (1 + m/1024), and
// (-1)^s * 2^-14 * m/1024 for subnormals.
func TestF16EveryNumber(t *testing.T) {
	for h := range 1 << 16 {
		sign, e, m := h>>15, h>>10&31, h&1023
		got, _ := decodeF16(binary.LittleEndian.AppendUint16(nil, uint16(h)))
		bits := math.Float32bits(got)
		if int(bits>>31) != sign {
			t.Fatalf("%#04x: sign of %#08x", h, bits)
		}
		if e == 31 && m != 0 {
			if bits&0x7fffffff != 0x7f800000|uint32(m)<<13 {
				t.Fatalf("%#04x: NaN %#08x", h, bits)
			}
			continue
		}
		want := math.Ldexp(1+float64(m)/1024, e-15)
		if e == 0 {
			want = math.Ldexp(float64(m)/1024, -14)
		} else if e == 31 {
			want = math.Inf(1)
		}
		if math.Abs(float64(got)) != want {
			t.Fatalf("%#04x: got %g, want %g", h, got, want)
		}
	}
}

func TestBF16EveryNumber(t *testing.T) {
	for h := range 1 << 16 {
		got, _ := decodeBF16(binary.LittleEndian.AppendUint16(nil, uint16(h)))
		if bits := math.Float32bits(got); bits != uint32(h)<<16 {
			t.Fatalf("%#04x: %#08x", h, bits)
		}
	}
}

func TestF64(t *testing.T) {
	const half = 0x1p-24 // half a unit in the last place of 1
	tests := []struct {
		name string
		in   float64
		want uint32
		fits bool
	}{
		{"exact", -2.5, math.Float32bits(-2.5), true},
		{"minus zero", math.Copysign(0, -1), 1 << 31, true},
		{"tie to even, down", 1 + half, math.Float32bits(1), true},
		{"above the tie", 1 + half + 0x1p-50, 0x3f800001, true},
		{"tie to even, up", 1 + 3*half, 0x3f800002, true},
		{"below the smallest", 1e-300, 0, true},
		{"subnormal", 0x1p-149, 1, true},
		{"infinite", math.Inf(-1), 0xff800000, true},
		{"largest", math.MaxFloat32, 0x7f7fffff, true},
		{"rounds to the largest", math.MaxFloat32 + 0x1p102, 0x7f7fffff, true},
		{"would round to infinity", math.MaxFloat32 + 0x1p103, 0, false},
		{"far too large", -1e300, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := binary.LittleEndian.AppendUint64(nil, math.Float64bits(tt.in))
			got, fits := decodeF64(src)
			if fits != tt.fits {
				t.Fatalf("fits: %v", fits)
			}
			if tt.fits && math.Float32bits(got) != tt.want {
				t.Errorf("%g became %#08x, want %#08x", tt.in, math.Float32bits(got), tt.want)
			}
		})
	}
	t.Run("NaN", func(t *testing.T) {
		got, fits := decodeF64(binary.LittleEndian.AppendUint64(nil, 0x7ff0000000000001))
		if !fits || !math.IsNaN(float64(got)) {
			t.Errorf("fits %v: %g", fits, got)
		}
	})
}
