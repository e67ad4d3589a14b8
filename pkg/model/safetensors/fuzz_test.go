package safetensors

import (
	"testing"

	"grpo/internal/untrusted"
)

// fuzzLimit is tighter than the rest of the readers': a reader of weights that
// allocated a thousand times its file would be of no use.
var fuzzLimit = untrusted.Limit{Base: 8 << 20, PerByte: 512, Time: untrusted.Reader.Time}

// checkRead holds for every input: Read gives a file that holds together or an
// error that can be shown, and allocates in proportion to the input.
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

// FuzzRead: no input makes Read panic, and what it accepts holds together.
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
