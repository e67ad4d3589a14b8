//go:build !unix

package process

func signalable(int) bool { return true }
