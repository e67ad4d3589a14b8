package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"grpo/internal/untrusted"
)

// f16 is the header of one tensor of F16.
func f16(name, shape, offsets string) string {
	return fmt.Sprintf(`"%s":{"dtype":"F16","shape":%s,"data_offsets":%s}`, name, shape, offsets)
}

var refused = []struct {
	name, header, data string
	want               string // the error after "read x.safetensors: "
}{
	{"empty header", ``, "????", `header: not a JSON object`},
	{"header is a list", `[]`, "", `header: not a JSON object`},
	{"space before the header", ` {}`, "", `header: not a JSON object: it must start with {`},
	{"byte order mark", "\ufeff{}", "", `header: not a JSON object`},
	{"unfinished JSON", `{"a":`, "", `header: not valid JSON: byte 5: unexpected end of JSON input`},
	{"broken JSON", `{"a":{"dtype":F16}}`, "", `header: not valid JSON: byte 15: `},
	{"comma after the last", `{"__metadata__":{},}`, "", `header: not valid JSON: byte 20: `},
	{"text after the object", `{}{}`, "", `header: not valid JSON: byte 3: `},
	{"deep nesting", `{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "", `header: not valid JSON: byte `},
	{"not UTF-8", "{\"a\xff\":{}}", "", `header: not valid UTF-8`},
	{"half a surrogate pair", `{"x\ud800":{}}`, "", `header: byte 3: invalid surrogate pair`},
	{"two first halves", `{"\ud83d\ud83d":{}}`, "", `header: byte 2: invalid surrogate pair`},
	{"second half alone", `{"\ude00":{}}`, "", `header: byte 2: invalid surrogate pair`},

	{"duplicate tensor", `{` + f16("a", "[1]", "[0,2]") + `,` + f16("a", "[1]", "[2,4]") + `}`, "aabb", `header: the key "a" appears twice`},
	{"duplicate after unescaping", `{` + f16("a", "[1]", "[0,2]") + `,` + f16(`\u0061`, "[1]", "[2,4]") + `}`, "aabb", `header: the key "a" appears twice`},
	{"duplicate field", `{"a":{"dtype":"F16","dtype":"BF16","shape":[1],"data_offsets":[0,2]}}`, "aa", `header: the key "dtype" appears twice`},
	{"duplicate metadata", `{"__metadata__":{"k":"1","k":"2"}}`, "", `header: the key "k" appears twice`},
	{"two metadata", `{"__metadata__":{},"__metadata__":{}}`, "", `header: the key "__metadata__" appears twice`},
	{"metadata of numbers", `{"__metadata__":{"epoch":3}}`, "", `header: __metadata__: "epoch": the number "3": want a string`},
	{"metadata is null", `{"__metadata__":null}`, "", `header: __metadata__: null: want an object`},

	{"tensor is a list", `{"a":[1]}`, "", `tensor "a": a list: want an object`},
	{"tensor is a string", `{"a":"F32"}`, "", `tensor "a": the string "F32": want an object`},
	{"unknown field", `{"a":{"strides":[1]}}`, "", `tensor "a": unknown key "strides"`},
	{"field in capitals", `{"a":{"DTYPE":"F16"}}`, "", `tensor "a": unknown key "DTYPE"`},
	{"no dtype", `{"a":{"shape":[1],"data_offsets":[0,2]}}`, "aa", `tensor "a": no dtype`},
	{"no shape", `{"a":{"dtype":"F16","data_offsets":[0,2]}}`, "aa", `tensor "a": no shape`},
	{"no offsets", `{"a":{"dtype":"F16","shape":[1]}}`, "aa", `tensor "a": no data_offsets`},
	{"dtype is null", `{"a":{"dtype":null,"shape":[1],"data_offsets":[0,2]}}`, "aa", `tensor "a": dtype: null: want a string`},
	{"unknown dtype", `{"a":{"dtype":"F12","shape":[1],"data_offsets":[0,2]}}`, "aa", `tensor "a": unknown dtype "F12" (these can be read: F32, F64, F16, BF16)`},
	{"integers", `{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}`, "aaaaaaaa", `tensor "a": unknown dtype "I64"`},

	{"shape is a number", `{` + f16("a", "1", "[0,2]") + `}`, "aa", `tensor "a": shape: the number "1": want a list of numbers`},
	{"shape of strings", `{` + f16("a", `["1"]`, "[0,2]") + `}`, "aa", `tensor "a": shape: the string "1": want a number`},
	{"nested shape", `{` + f16("a", `[[1]]`, "[0,2]") + `}`, "aa", `tensor "a": shape: a list: want a number`},
	{"fraction", `{` + f16("a", "[1.5]", "[0,2]") + `}`, "aa", `tensor "a": shape: "1.5" is not a whole number`},
	{"exponent", `{` + f16("a", "[1e0]", "[0,2]") + `}`, "aa", `tensor "a": shape: "1e0" is not a whole number`},
	{"negative size", `{` + f16("a", "[-1]", "[0,2]") + `}`, "aa", `tensor "a": shape: "-1" is negative`},
	{"two negative sizes", `{` + f16("a", "[-1,-1]", "[0,2]") + `}`, "aa", `tensor "a": shape: "-1" is negative`},
	{"size beyond 64 bits", `{` + f16("a", "[18446744073709551617]", "[0,2]") + `}`, "aa", `tensor "a": shape: "18446744073709551617" does not fit in an integer`},
	{"product wraps to 0", `{` + f16("a", "[4294967296,4294967296]", "[0,0]") + `}`, "", `tensor "a": shape [4294967296 4294967296] overflows`},
	{"product overflows next to a 0", `{` + f16("a", "[0,4294967296,4294967296]", "[0,0]") + `}`, "", `tensor "a": shape [0 4294967296 4294967296] overflows`},
	{"bytes wrap to 0", `{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`, "", `tensor "a": shape [2305843009213693952] of F64 overflows`},
	{"65 dimensions", `{` + f16("a", "[1"+strings.Repeat(",1", 64)+"]", "[0,2]") + `}`, "aa", `tensor "a": shape: more than 64 numbers`},

	{"one offset", `{` + f16("a", "[1]", "[2]") + `}`, "aa", `tensor "a": data_offsets: [2]: want two numbers`},
	{"three offsets", `{` + f16("a", "[1]", "[0,2,4]") + `}`, "aa", `tensor "a": data_offsets: more than 2 numbers`},
	{"negative offset", `{` + f16("a", "[1]", "[-2,0]") + `}`, "aa", `tensor "a": data_offsets: "-2" is negative`},
	{"offsets reversed", `{` + f16("a", "[1]", "[2,0]") + `}`, "aa", `tensor "a": data_offsets [2 0] end before they start`},
	{"offsets too close", `{` + f16("a", "[2]", "[0,2]") + `}`, "aa", `tensor "a": shape [2] of F16 takes 4 bytes, data_offsets [0 2] have 2`},
	{"offsets too far apart", `{` + f16("a", "[1]", "[0,4]") + `}`, "aaaa", `tensor "a": shape [1] of F16 takes 2 bytes, data_offsets [0 4] have 4`},
	{"scalar of no bytes", `{` + f16("a", "[]", "[0,0]") + `}`, "", `tensor "a": shape [] of F16 takes 2 bytes, data_offsets [0 0] have 0`},
	{"out of range", `{` + f16("a", "[1]", "[0,2]") + `,` + f16("b", "[2]", "[2,6]") + `}`, "aabb", `tensor "b": data_offsets [2 6] reach beyond the file: truncated: expected 121 bytes, found 119`},
	{"far out of range", `{` + f16("a", "[4611686018427387903]", "[0,9223372036854775806]") + `}`, "aa", `tensor "a": data_offsets [0 9223372036854775806] reach beyond the file: truncated: expected 9223372036854775904 bytes, found 100`},
	{"overlap", `{` + f16("a", "[2]", "[0,4]") + `,` + f16("b", "[2]", "[2,6]") + `}`, "aabbcc", `tensor "b": data_offsets [2 6] overlap those of tensor "a", [0 4]`},
	{"shared data", `{` + f16("a", "[1]", "[0,2]") + `,` + f16("b", "[1]", "[0,2]") + `}`, "aa", `tensor "b": data_offsets [0 2] overlap those of tensor "a", [0 2]`},
	{"empty tensor inside another", `{` + f16("a", "[2]", "[0,4]") + `,` + f16("b", "[0]", "[2,2]") + `}`, "aaaa", `tensor "b": data_offsets [2 2] overlap those of tensor "a", [0 4]`},
	{"hole", `{` + f16("a", "[1]", "[0,2]") + `,` + f16("b", "[1]", "[4,6]") + `}`, "aa??bb", `tensor "b": data_offsets [4 6] leave a hole: bytes [2 4] belong to no tensor`},
	{"hole at the start", `{` + f16("a", "[1]", "[2,4]") + `}`, "??aa", `tensor "a": data_offsets [2 4] leave a hole: bytes [0 2] belong to no tensor`},
	{"empty tensor after the end", `{` + f16("a", "[0]", "[2,2]") + `}`, "", `tensor "a": data_offsets [2 2] leave a hole: bytes [0 2] belong to no tensor`},
	{"trailing bytes", `{` + f16("a", "[1]", "[0,2]") + `}`, "aa???", `3 trailing bytes: expected 64 bytes, found 67`},
	{"data without a tensor", `{}`, "?", `1 trailing bytes: expected 10 bytes, found 11`},
	{"F64 beyond float32", `{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}`, "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\xe0\x7f", `tensor "a": element 1 does not fit in float32`},
	{"long name", `{"` + strings.Repeat("n", 5000) + `":1}`, "", `tensor "` + strings.Repeat("n", 57) + `...": the number "1": want an object`},
}

func TestReadRefuses(t *testing.T) {
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			f, err := readBytes(raw(tt.header, tt.data))
			if f != nil || err == nil || !strings.HasPrefix(err.Error(), "read x.safetensors: "+tt.want) {
				t.Errorf("got %v, %v; want %s", f, err, tt.want)
			}
		})
	}
}

// zeros is a file of zeros after an 8-byte length, of any size.
type zeros struct{ header uint64 }

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	var prefix [8]byte
	binary.LittleEndian.PutUint64(prefix[:], z.header)
	for i := range p {
		p[i] = 0
		if at := off + int64(i); at < 8 {
			p[i] = prefix[at]
		}
	}
	return len(p), nil
}

// Numbers in the file cost no memory before they are checked.
func TestLargeNumbersAllocateNothing(t *testing.T) {
	file := func(b []byte) (*File, error) { return readBytes(b) }
	bigHeader := func(n uint64, size int64) func() (*File, error) {
		return func() (*File, error) { return Read("x", zeros{n}, size) }
	}
	tests := []struct {
		name string
		read func() (*File, error)
		want string
	}{
		{"header of 2^60 bytes", bigHeader(1<<60, 1000), "header: the first 8 bytes announce 1152921504606846976 bytes of header in a file of 1000, the limit is 100000000"},
		{"header of 2^64-1 bytes", bigHeader(math.MaxUint64, 1000), "header: the first 8 bytes announce 18446744073709551615 bytes"},
		{"header one byte over the limit, in a file of that size", bigHeader(MaxHeader+1, 1<<40), "header: the first 8 bytes announce 100000001 bytes"},
		{"header at the limit, beyond the file", bigHeader(MaxHeader, 1000), "truncated: expected at least 100000008 bytes, found 1000"},
		{"header one byte beyond the file", bigHeader(93, 100), "truncated: expected at least 101 bytes, found 100"},
		{"tensor of 2^62 bytes", func() (*File, error) {
			return file(raw(`{`+f16("a", "[2305843009213693952]", "[0,4611686018427387904]")+`}`, "aa"))
		}, `tensor "a": data_offsets [0 4611686018427387904] reach beyond the file`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, err := tt.read()
			runtime.ReadMemStats(&after)
			if f != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want %s", f, err, tt.want)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
				t.Errorf("%d bytes were allocated", n)
			}
		})
	}
}

// small is a file with every feature.
func small(t testing.TB) []byte {
	header := `{"__metadata__":{"format":"pt"},` + f16("h", "[2]", "[0,4]") + `,"e":{"dtype":"F32","shape":[0,2],"data_offsets":[4,4]},` +
		`"d":{"dtype":"F64","shape":[],"data_offsets":[4,12]},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[12,20]}} `
	b := raw(header, "\x00\x3c\x00\xbc\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x80\x3f\x00\x00\xc0\xff")
	checkAccepted(t, mustRead(t, b))
	return b
}

func TestTruncatedEverywhere(t *testing.T) {
	b := small(t)
	for n := range b {
		f, err := readBytes(b[:n])
		if f != nil || err == nil {
			t.Fatalf("%d of %d bytes were accepted", n, len(b))
		}
		if s := err.Error(); !strings.Contains(s, "truncated: expected ") || !strings.HasSuffix(s, fmt.Sprintf(" bytes, found %d", n)) {
			t.Errorf("%d of %d bytes: %s", n, len(b), s)
		}
	}
}

// After a change of any byte, Read returns an error or a consistent file; a change in the data
// affects only that element.
func TestEveryByteFlipped(t *testing.T) {
	b := small(t)
	data := len(b) - 20
	accepted := 0
	for i := range b {
		for mask := 1; mask < 256; mask++ {
			changed := bytes.Clone(b)
			changed[i] ^= byte(mask)
			f, err := readBytes(changed)
			if err == nil {
				checkAccepted(t, f)
				accepted++
			}
			switch where := fmt.Sprintf("byte %d ^ %#x", i, mask); {
			case err != nil && !strings.HasPrefix(err.Error(), "read x.safetensors: "):
				t.Fatalf("%s: the error does not name the file: %v", where, err)
			case err == nil && i < 8:
				t.Fatalf("%s: another length of the header was accepted", where)
			case err != nil && i >= data && !strings.Contains(err.Error(), "does not fit in float32"):
				t.Fatalf("%s, in the data: %v", where, err)
			}
		}
	}
	if accepted < 20*200 {
		t.Errorf("only %d changes were accepted; those in the data should be", accepted)
	}
}

// fuzzLimit is stricter than for other readers: a reader of weights must not allocate a thousand
// times its file.
var fuzzLimit = untrusted.Limit{Base: 8 << 20, PerByte: 512, Time: untrusted.Reader.Time}

// checkRead checks one input: Read returns a consistent file or a printable error, and allocates in
// proportion to the input.
func checkRead(t *testing.T, b []byte) {
	t.Helper()
	fuzzLimit.Check(t, len(b), func() {
		file, err := readBytes(b)
		switch {
		case (file == nil) == (err == nil):
			t.Fatalf("got %v and %v", file, err)
		case err != nil:
			untrusted.CheckError(t, err)
		default:
			checkAccepted(t, file)
		}
	})
}

// FuzzRead: no input makes Read panic, and accepted files are consistent.
func FuzzRead(f *testing.F) {
	f.Add(small(f))
	for _, tt := range refused {
		if len(tt.header) < 1000 {
			f.Add(raw(tt.header, tt.data))
		}
	}
	f.Fuzz(checkRead)
}

// FuzzHeader puts the right length before the header, so that the fuzzer need
// not find it.
func FuzzHeader(f *testing.F) {
	for _, tt := range refused {
		if len(tt.header) < 1000 {
			f.Add(tt.header, tt.data)
		}
	}
	f.Add("{\"\\u001b[31m\":{\"dtype\":\"\\u001b\"}}", "")
	f.Add("{\"\u202e\":1}", "")
	f.Fuzz(func(t *testing.T, header, data string) { checkRead(t, raw(header, data)) })
}
