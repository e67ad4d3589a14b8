//go:build !linux && !darwin

package cores

func fast() int { return 0 }
