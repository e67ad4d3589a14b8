// Package jsonkeys finds what the standard JSON decoder changes silently, so that readers and the
// program could see different values: of duplicate keys it takes the last one, and bytes that are
// not UTF-8 or half of a surrogate pair become U+FFFD.
package jsonkeys

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"grpo/internal/textutil"
)

// Decode is json.Unmarshal, and then [Characters].
func Decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	return Characters(data)
}

// Characters returns an error if data is not UTF-8, or an escape in it is half of a surrogate pair,
// as in "\ud83d". The decoder has checked the rest of the syntax.
func Characters(data []byte) error { return check(data, jsontext.AllowDuplicateNames(true)) }

// Check returns the error of [Characters], or one that names the first key that appears twice in
// one object of data, at any depth.
func Check(data []byte) error { return check(data) }

func check(data []byte, options ...jsontext.Options) error {
	err := jsontext.NewDecoder(bytes.NewReader(data), options...).SkipValue()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // left to the decoder
	}
	return Explain(err)
}

// Explain names the key of an error about a duplicate one, and the byte of another error of syntax.
func Explain(err error) error {
	var at *jsontext.SyntacticError
	switch {
	case !errors.As(err, &at):
		return err
	case errors.Is(at.Err, jsontext.ErrDuplicateName):
		return fmt.Errorf("the key %s appears twice", textutil.Quote(at.JSONPointer.LastToken()))
	}
	return fmt.Errorf("byte %d: %w", at.ByteOffset, at.Err)
}
