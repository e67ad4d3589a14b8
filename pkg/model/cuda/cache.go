//go:build withcuda && linux

package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// CacheEnv names the environment variable of the folder that keeps compiled
// kernels; without it they are in the user's cache folder, under grpo/cuda.
const CacheEnv = "GRPO_CUDA_CACHE"

// cache keeps compiled code on disk. A file's name is the hash of everything that determines its
// content; its first 32 bytes are the hash of the rest, so a damaged file is compiled again.
// Without a folder, or if a file can't be written, every process compiles again.
type cache struct{ folder string }

func openCache(env func(string) string) cache {
	if f := env(CacheEnv); f != "" {
		return cache{f}
	}
	f, err := os.UserCacheDir()
	if err != nil {
		return cache{}
	}
	return cache{filepath.Join(f, "grpo", "cuda")}
}

// key hashes everything that the code is compiled from.
func key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s\n", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (c cache) path(key string) string { return filepath.Join(c.folder, key+".bin") }

// get returns the code under key, or nil if it is missing or damaged.
func (c cache) get(key string) []byte {
	if c.folder == "" {
		return nil
	}
	data, err := os.ReadFile(c.path(key))
	if err != nil || len(data) <= sha256.Size {
		return nil
	}
	if sum := sha256.Sum256(data[sha256.Size:]); !bytes.Equal(sum[:], data[:sha256.Size]) {
		return nil
	}
	return data[sha256.Size:]
}

// put renames a temporary file, so that no reader sees a part of it.
func (c cache) put(key string, code []byte) {
	if c.folder == "" || os.MkdirAll(c.folder, 0o755) != nil {
		return
	}
	f, err := os.CreateTemp(c.folder, key+".*.tmp")
	if err != nil {
		return
	}
	sum := sha256.Sum256(code)
	_, err = f.Write(append(sum[:], code...))
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil || os.Rename(f.Name(), c.path(key)) != nil {
		_ = os.Remove(f.Name())
	}
}
