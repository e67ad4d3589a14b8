package safetensors

import (
	"testing"

	"grpo/internal/untrusted"
)

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
