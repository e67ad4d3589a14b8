//go:build !unix

package hub

// lock does nothing on this system: the hash tells whether the content is right.
func lock(string) (unlock func(), err error) { return func() {}, nil }
