package rundir

import "golang.org/x/sys/unix"

// exchange swaps two folders in one step. It is a variable for tests of the way without it.
var exchange = func(a, b string) error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) }
