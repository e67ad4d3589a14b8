// Package jsonkeys finds duplicate keys in a JSON object. The standard decoder silently takes the
// last one, so readers and the program could see different values.
package jsonkeys

import (
	"bytes"
	"encoding/json"
	"fmt"

	"grpo/internal/words"
)

// Check returns an error that names the first key that appears twice in one object of data, at any
// depth. Invalid JSON is left to the decoder.
func Check(data []byte) error {
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
				return fmt.Errorf("the key %s appears twice", words.Quote(t))
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
