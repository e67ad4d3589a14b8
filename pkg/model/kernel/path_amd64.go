//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

func bestPath() path {
	switch {
	case !cpu.X86.HasAVX2 || !cpu.X86.HasFMA:
		return pathGo
	case !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512DQ || !cpu.X86.HasAVX512VL || !cpu.X86.HasAVX512BW:
		return pathAVX2
	default:
		return pathAVX512
	}
}
