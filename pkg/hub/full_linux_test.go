package hub

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"grpo/internal/expect"
	"grpo/internal/hubtest"
)

// On a full disk the bytes that fit stay, and with more space the download continues.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small disk can't be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	s, c, waits := puller(t)
	content := bytes.Repeat([]byte("0123456789"), 10000)
	s.Files["x.gguf"] = content
	f := file{name: "x.gguf", url: s.URL + "/x.gguf", size: int64(len(content)), sum: hubtest.ETag("x.gguf", content)}
	err := c.fetch(t.Context(), f, dir+"/x")
	if err == nil || !strings.Contains(err.Error(), "the disk is full: free some space, then give the same command again") || len(*waits) > 0 {
		t.Errorf("error %v, waits %v", err, *waits)
	}
	expect.OK(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=256k"))
	if err := c.fetch(t.Context(), f, dir+"/x"); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(dir + "/x"); !bytes.Equal(got, content) {
		t.Error("other content")
	}
	if r := s.Requests(); len(r) != 2 || !strings.Contains(r[1], "bytes=65536-") {
		t.Errorf("requests %q", r)
	}
}
