//go:build withcuda && linux

package cudalib

// target is the toolkit's name of this processor.
func target() string { return "x86_64-linux" }
