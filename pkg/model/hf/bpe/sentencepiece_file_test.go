package bpe

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
)

// fields reads a message of protobuf: numbers, float32s and bytes by their field.
func fields(t *testing.T, data []byte, f func(field uint64, number uint64, data []byte)) {
	t.Helper()
	next := func() uint64 {
		x, n := binary.Uvarint(data)
		if n <= 0 {
			t.Fatal("no number")
		}
		data = data[n:]
		return x
	}
	for len(data) > 0 {
		switch key := next(); key & 7 {
		case 0:
			f(key>>3, next(), nil)
		case 2:
			n := next()
			f(key>>3, 0, data[:n])
			data = data[n:]
		case 5:
			f(key>>3, uint64(binary.LittleEndian.Uint32(data)), nil)
			data = data[4:]
		default:
			t.Fatalf("wire type %d", key&7)
		}
	}
}

// tokenizer.model has the pieces with their scores and types, as sentencepiece wants them.
func TestSentencePieceFile(t *testing.T) {
	g := GGUF{Model: "llama", SpacePrefix: true,
		Tokens: []string{"<pad>", "<unk>", "<s>", "▁", "a", "▁a", "  ", "▁▁▁", "   ", ""},
		Types:  []int64{3, 3, 3, 1, 1, 1, 4, 1, 4, 1},
		Scores: []float64{0, 0, 0, -1, -2.5, -0.5, -1000, -4, -1000, 0}}
	type piece struct {
		text  string
		score float32
		kind  uint64
	}
	want := []piece{{"<pad>", 0, 3}, {"<unk>", 0, 2}, {"<s>", 0, 3}, {"▁", -1, 1}, {"a", -2.5, 1}, {"▁a", -0.5, 1},
		{"▁▁", -1000, 4}, {"▁▁▁", -4, 1}, {"   ", -1000, 4}, {"[PAD9]", 0, 5}}
	for b := range 256 {
		text := fmt.Sprintf("<0x%02X>", b)
		g.Tokens, g.Types, g.Scores = append(g.Tokens, text), append(g.Types, ggufByte), append(g.Scores, 0)
		want = append(want, piece{text, 0, 6})
	}
	var got []piece
	var settings []string
	fields(t, SentencePieceFile(g), func(part, _ uint64, data []byte) {
		var p piece
		fields(t, data, func(field, number uint64, data []byte) {
			switch {
			case part != 1:
				settings = append(settings, fmt.Sprint(part, ".", field, "=", number, string(data)))
			case field == 1:
				p.text = string(data)
			case field == 2:
				p.score = math.Float32frombits(uint32(number))
			case field == 3:
				p.kind = number
			}
		})
		if part == 1 {
			got = append(got, p)
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("pieces %v, want %v", got, want)
	}
	if want := []string{"2.3=2", "2.35=1", "2.45=0<unk>", "3.3=1", "3.4=0"}; !slices.Equal(settings, want) {
		t.Errorf("settings %q, want %q", settings, want)
	}
	if added := g.Added(); len(added) != 5 || added["6"] == nil || added["1"] == nil {
		t.Errorf("added tokens %v", added)
	}
	expect.OK(t, expect.Err(FromGGUF(g)))

	g.Types[len(g.Types)-1] = 1 // a byte without a token
	other := GGUF{Model: "gpt2", Pre: "gpt-2", Tokens: []string{"<unk>"}, Types: []int64{2}}
	none := GGUF{Model: "llama", Tokens: []string{"a"}, Types: []int64{1}, Scores: []float64{0}}
	for _, g := range []GGUF{g, other, none} {
		if SentencePieceFile(g) != nil {
			t.Errorf("%q: sentencepiece would refuse the file", g.Tokens[:1])
		}
	}
}
