//go:build unix && !linux

package faulttest

import "errors"

func mountTmpfs(string, string) error { return errNotPermitted }

func remount(string, bool) error { return errNotPermitted }

func unmount(string) error { return nil }

// killChild finds no child here.
func killChild(int, int) (bool, error) { return false, nil }

// limits is empty: the limits are known to affect Go programs only on Linux.
var limits = map[string]int{}

func setLimit(int, uint64) error { return errors.ErrUnsupported }
