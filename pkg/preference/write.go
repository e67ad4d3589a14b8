package preference

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Write writes pairs, one per line. The same pairs give the same bytes, which [Read] reads back.
func Write(w io.Writer, pairs []Pair) error {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	for i, p := range pairs {
		if err := enc.Encode(p); err != nil {
			return fmt.Errorf("write pairs: pair %d: %w", i+1, err)
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write pairs: %w", err)
	}
	return nil
}
