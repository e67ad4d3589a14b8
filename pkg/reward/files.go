package reward

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"grpo/internal/regular"
)

// HashFiles returns the SHA-256 of the files among the words of a command, by path as written.
// Words that name no file, and a program that is found by PATH, are left out.
func HashFiles(command []string) (map[string]string, error) {
	out := map[string]string{}
	for i, word := range command {
		if i == 0 && !strings.ContainsAny(word, `/\`) {
			continue
		}
		info, err := os.Stat(word)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		sum, err := regular.SHA256(word)
		if errors.Is(err, fs.ErrPermission) {
			continue // a program may be executable and not readable
		}
		if err != nil {
			return nil, fmt.Errorf("hash a file of the reward's command: %w", err)
		}
		out[word] = sum
	}
	return out, nil
}
