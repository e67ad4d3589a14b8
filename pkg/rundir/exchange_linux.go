package rundir

import "golang.org/x/sys/unix"

// exchange swaps two folders in one step. It is a variable for tests of the way without it.
var exchange = func(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
