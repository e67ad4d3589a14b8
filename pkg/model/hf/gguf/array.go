package gguf

import "fmt"

// Array is an array of the metadata as it is in the file; few are read.
type Array struct {
	Len  int
	kind uint32
	data []byte
}

// Strings returns the elements; an error if they are not strings.
func (a Array) Strings() ([]string, error) {
	if a.kind != typeString {
		return nil, fmt.Errorf("it is not an array of strings")
	}
	r := &reader{data: a.data}
	out := make([]string, a.Len)
	for i := range out {
		out[i] = r.string()
	}
	return out, nil
}

// Ints returns the elements; an error if they are not integers.
func (a Array) Ints() ([]int64, error) {
	r := &reader{data: a.data}
	out := make([]int64, a.Len)
	for i := range out {
		switch v := r.value(a.kind, 0).(type) {
		case int64:
			out[i] = v
		case uint64:
			out[i] = int64(v)
		default:
			return nil, fmt.Errorf("it is not an array of integers")
		}
	}
	return out, nil
}
