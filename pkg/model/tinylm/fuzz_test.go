package tinylm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
)

// fuzzLimit: a checkpoint is read, encoded, read and encoded again, as float32
// and as bytes.
var fuzzLimit = untrusted.Limit{Base: 8 << 20, PerByte: 2 << 10, Time: untrusted.Reader.Time}

// checkCheckpoint: a readable file is encoded to bytes that read back the same, and errors are
// printable.
func checkCheckpoint(t *testing.T, data []byte) {
	t.Helper()
	fuzzLimit.Check(t, len(data), func() {
		c, err := decode(data)
		if err != nil {
			untrusted.CheckError(t, err)
			return
		}
		once := encode(t, c)
		again, err := decode(once)
		expect.OK(t, err)
		if !bytes.Equal(encode(t, again), once) {
			t.Error("the second encoding differs")
		}
	})
}

func FuzzReadCheckpoint(f *testing.F) {
	for _, data := range checkpoints(f) {
		f.Add(data)
	}
	f.Fuzz(checkCheckpoint)
}

// FuzzCheckpointHeader puts the right length before a header and n bytes of zeros
// after it, so that the fuzzer varies names and shapes.
func FuzzCheckpointHeader(f *testing.F) {
	for _, data := range checkpoints(f) {
		n := binary.LittleEndian.Uint64(data)
		f.Add(data[8:8+n], uint16(uint64(len(data))-8-n))
	}
	f.Add([]byte(`{"embed.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"rnn.weight_hh_l0":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`), uint16(4))
	f.Add([]byte(`{"embed.weight":{"dtype":"F32","shape":[2147483647,0],"data_offsets":[0,0]}}`), uint16(0))
	f.Add([]byte(`{"\u001b[31m":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`), uint16(4))
	f.Fuzz(func(t *testing.T, header []byte, n uint16) {
		data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		data = append(append(data, header...), make([]byte, n)...)
		checkCheckpoint(t, data)
	})
}

// checkpoints are files with everything and with weights alone.
func checkpoints(t testing.TB) [][]byte {
	c := smallCheckpoint(t)
	full := encode(t, c)
	c.M, c.V, c.Critic = nil, nil, nil
	return [][]byte{full, encode(t, c)}
}

// TestManyTensors: a header with very many layers is refused in time that is
// proportional to its length.
func TestManyTensors(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	var b bytes.Buffer
	b.WriteString(`{"embed.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}`)
	const layers = 60_000
	for i := range layers {
		fmt.Fprintf(&b, `,"rnn.weight_hh_l%d":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}`, i)
	}
	b.WriteString("}")
	data := binary.LittleEndian.AppendUint64(nil, uint64(b.Len()))
	data = append(append(data, b.Bytes()...), make([]byte, 4)...)
	limit := untrusted.Limit{Base: fuzzLimit.Base, PerByte: fuzzLimit.PerByte, Time: 6 * time.Second}
	limit.Check(t, len(data), func() {
		expect.Error(t, expect.Err(decode(data)), "needs more numbers than the file's 1")
	})
}
