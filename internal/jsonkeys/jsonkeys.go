// Package jsonkeys finds what the standard JSON decoder changes silently, so that readers and the
// program could see different values: of duplicate keys it takes the last one, and half of a
// surrogate pair becomes U+FFFD.
package jsonkeys

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"grpo/internal/textutil"
)

// Decode is json.Unmarshal, and then [Characters].
func Decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	return Characters(data)
}

// Characters returns an error if an escape in data is half of a surrogate pair, as in "\ud83d".
// Invalid JSON is left to the decoder.
func Characters(data []byte) error {
	for at := 0; ; {
		next := bytes.IndexByte(data[at:], '\\')
		if next < 0 {
			return nil
		}
		at += next
		first, size := escape(data[at:])
		if utf16.IsSurrogate(first) {
			second, _ := escape(data[at+size:])
			if utf16.DecodeRune(first, second) == utf8.RuneError {
				return fmt.Errorf("byte %d: half of a UTF-16 surrogate pair, \\u%04x, is not a character", at, first)
			}
			size *= 2
		}
		at += size
	}
}

// escape reads an escape at the start of s, such as \u0041 or \n, and returns its size in bytes and
// the code of \uXXXX, or -1.
func escape(s []byte) (code rune, size int) {
	if len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
		if x, err := strconv.ParseUint(string(s[2:6]), 16, 16); err == nil {
			return rune(x), 6
		}
	}
	return -1, min(len(s), 2)
}

// Check returns the error of [Characters], or one that names the first key that appears twice in
// one object of data, at any depth. Invalid JSON is left to the decoder.
func Check(data []byte) error {
	if err := Characters(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type level struct {
		keys map[string]bool // nil in a list
		key  bool            // a key is next
	}
	var open []level
	for {
		token, err := dec.Token()
		if err != nil {
			return nil
		}
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				open = append(open, level{keys: map[string]bool{}, key: true})
				continue
			case '[':
				open = append(open, level{})
				continue
			}
			open = open[:len(open)-1]
		case string:
			if len(open) == 0 || !open[len(open)-1].key {
				break
			}
			in := &open[len(open)-1]
			if in.keys[t] {
				return fmt.Errorf("the key %s appears twice", textutil.Quote(t))
			}
			in.keys[t], in.key = true, false
			continue
		}
		// A value has ended.
		if n := len(open); n > 0 {
			open[n-1].key = open[n-1].keys != nil
		}
	}
}
