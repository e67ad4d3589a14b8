package bpe

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Fields of sentencepiece_model.proto, with their wire types: 0 is a number, 2 bytes, 5 a float32.
const (
	modelPieces     = 1<<3 | 2
	modelTrainer    = 2<<3 | 2
	modelNormalizer = 3<<3 | 2

	pieceText  = 1<<3 | 2
	pieceScore = 2<<3 | 5
	pieceType  = 3 << 3

	trainerType         = 3 << 3
	trainerByteFallback = 35 << 3
	trainerUnknown      = 45<<3 | 2

	normalizerPrefix = 3 << 3
	normalizerTrim   = 4 << 3

	typeBPE = 2
)

// SentencePieceFile is the tokenizer.model of a GGUF file's SentencePiece-style tokenizer, from which llama.cpp's
// converter takes the scores; nil if the sentencepiece library would refuse it: it wants an unknown token, and the
// tokens of all 256 bytes or of none.
func SentencePieceFile(g GGUF) []byte {
	vocab := make(map[string]int32, len(g.Tokens))
	n := 0
	for id, content := range g.Tokens {
		vocab[content] = int32(id)
		if g.Types[id] == ggufByte {
			n++
		}
	}
	unknown := idOf(vocab, unknownToken)
	if g.Model != "llama" || unknown == noToken || n != 0 && n != 256 {
		return nil
	}
	var out []byte
	message := func(out []byte, field uint64, data []byte) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(out, field), uint64(len(data))), data...)
	}
	number := func(out []byte, field, x uint64) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(out, field), x)
	}
	for id, content := range g.Tokens {
		kind := uint64(g.Types[id]) // GGUF has sentencepiece's numbers
		switch text := strings.ReplaceAll(content, " ", meta); {
		case int32(id) == unknown:
			kind = ggufUnknown
		case kind == ggufUnknown:
			kind = ggufControl
		case content == "":
			content, kind = fmt.Sprintf("[PAD%d]", id), ggufUnused
		case text != content: // llama.cpp's converter has put spaces into tokens that a user defined
			if _, ok := vocab[text]; !ok {
				content = text
			}
		}
		piece := message(nil, pieceText, []byte(content))
		piece = binary.AppendUvarint(piece, pieceScore)
		piece = binary.LittleEndian.AppendUint32(piece, math.Float32bits(float32(g.Scores[id])))
		out = message(out, modelPieces, number(piece, pieceType, kind))
	}
	flag := map[bool]uint64{true: 1}
	trainer := number(number(nil, trainerType, typeBPE), trainerByteFallback, flag[n > 0])
	out = message(out, modelTrainer, message(trainer, trainerUnknown, []byte(g.Tokens[unknown])))
	return message(out, modelNormalizer, number(number(nil, normalizerPrefix, flag[g.SpacePrefix]), normalizerTrim, 0))
}

// Added lists the tokens that are matched in the text as a whole, as tokenizer_config.json does: llama.cpp's converter
// does not see in tokenizer.model which tokens a user defined.
func (g *GGUF) Added() map[string]any {
	out := map[string]any{}
	for id, content := range g.Tokens {
		if isAdded, special := g.added(id); isAdded && g.Types[id] != ggufUnknown {
			out[fmt.Sprint(id)] = object{"content": content, "special": special,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false}
		}
	}
	return out
}
