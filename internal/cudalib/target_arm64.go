//go:build withcuda && linux

package cudalib

// target is the toolkit's name of this processor.
func target() string { return "sbsa-linux" }
