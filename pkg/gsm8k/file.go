package gsm8k

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"grpo/internal/regular"
)

// ReadFile reads problems from a file: GSM8K's JSONL or SVAMP's JSON. A name in
// .jsonl is JSONL; otherwise a file whose first character is "[" is SVAMP's
// array and anything else is JSONL. Errors are those of [ReadJSONL] and
// [ReadSVAMP].
func ReadFile(path string, opt ReadOptions) ([]Problem, ReadReport, error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, ReadReport{}, fmt.Errorf("read problems: %w", err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if !strings.EqualFold(filepath.Ext(path), ".jsonl") {
		array, err := beginsArray(r)
		if err != nil {
			return nil, ReadReport{}, fmt.Errorf("read problems: %w", err)
		}
		if array {
			return ReadSVAMP(r, path, opt)
		}
	}
	return ReadJSONL(r, path, opt)
}

// beginsArray looks at the first characters without taking them. A file that
// opens with more white space than the reader holds counts as no array.
func beginsArray(r *bufio.Reader) (bool, error) {
	head, err := r.Peek(r.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	head = bytes.TrimLeft(bytes.TrimPrefix(head, utf8BOM), " \t\r\n")
	return len(head) > 0 && head[0] == '[', nil
}
