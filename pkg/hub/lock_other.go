//go:build !unix

package hub

// tryLock does nothing on this system: the hash tells whether the content is right.
func tryLock(string) (unlock func(), err error) { return func() {}, nil }
