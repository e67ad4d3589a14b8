//go:build !linux && !darwin

package sysmem

func available() int64 { return 0 }
