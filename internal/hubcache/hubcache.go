// Package hubcache reads the layout of the Hugging Face cache, which transformers and
// `grpo pull model` write:
//
//	models--OWNER--NAME/
//	  refs/main                        the commit of a branch or a tag
//	  blobs/ETAG                       a file's content
//	  snapshots/COMMIT/config.json     a link to ../../blobs/ETAG
//
// It needs no network.
package hubcache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"grpo/internal/pattern"
	"grpo/internal/regular"
)

// Folders of a model in the cache.
const (
	Refs      = "refs"
	Blobs     = "blobs"
	Snapshots = "snapshots"
)

// DefaultRevision is the branch of a name without a revision.
const DefaultRevision = "main"

// Dir returns the folder of the cache, by the rules of huggingface_hub: HF_HUB_CACHE, HF_HOME/hub,
// or hub in the user's cache folder. The error means that the user has no home folder.
func Dir(getenv func(string) string) (string, error) {
	if dir := cmp.Or(getenv("HF_HUB_CACHE"), getenv("HUGGINGFACE_HUB_CACHE")); dir != "" {
		return expand(dir)
	}
	if home := getenv("HF_HOME"); home != "" {
		return expand(filepath.Join(home, "hub"))
	}
	return expand(filepath.Join(cmp.Or(getenv("XDG_CACHE_HOME"), "~/.cache"), "huggingface", "hub"))
}

// expand replaces a leading ~ by the home folder.
func expand(dir string) (string, error) {
	rest, ok := strings.CutPrefix(filepath.ToSlash(dir), "~/")
	if !ok {
		return filepath.Abs(dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the Hugging Face cache: %w (set HF_HUB_CACHE to its folder)", err)
	}
	return filepath.Join(home, filepath.FromSlash(rest)), nil
}

// Name is a model on the Hub, written OWNER/NAME, OWNER/NAME@REVISION or, for one file of it,
// OWNER/NAME/FILE.gguf.
type Name struct {
	Owner, Repo string
	Revision    string // a commit, branch or tag; empty means [DefaultRevision]
	File        string // a GGUF file; empty means the folder
}

var (
	nameForm = pattern.Of(`^([0-9A-Za-z][\w.-]*)/([0-9A-Za-z][\w.-]*)(?:@([\w][\w.-]*))?(?:/([\w][\w.-]*\.(?i:gguf)))?$`)
	// CommitForm matches a commit.
	CommitForm = pattern.Of(`^[0-9a-f]{40}$`)
	// ETagForm matches the names of blobs that huggingface_hub and this program write: the SHA-256
	// of a large file, the Git SHA-1 of another.
	ETagForm = pattern.Of(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
)

// Parse reads a name; it is false for text of another form. A path such as results/run has the
// same form: check first that there is no such file.
func Parse(text string) (n Name, ok bool) {
	m := nameForm().FindStringSubmatch(text)
	if m == nil || len(text) > 300 || strings.Contains(text, "..") || strings.Contains(m[1]+"/"+m[2], "--") {
		return n, false
	}
	if ext := strings.ToLower(filepath.Ext(m[2])); m[4] == "" && (ext == ".gguf" || ext == ".safetensors") {
		return n, false // the path of a file
	}
	return Name{Owner: m[1], Repo: m[2], Revision: m[3], File: m[4]}, true
}

// ID is OWNER/NAME.
func (n Name) ID() string { return n.Owner + "/" + n.Repo }

func (n Name) String() string {
	out := n.ID()
	if n.Revision != "" {
		out += "@" + n.Revision
	}
	if n.File != "" {
		out += "/" + n.File
	}
	return out
}

// Folder is the model's folder in the cache.
func (n Name) Folder(cache string) string {
	return filepath.Join(cache, "models--"+n.Owner+"--"+n.Repo)
}

// ErrNotCached means that a model is not in the cache.
var ErrNotCached = errors.New("it is not in the Hugging Face cache")

// Find returns the path of a model in the cache: its snapshot, or the GGUF file that the name has or
// that is the only one in a snapshot without config.json. pinned is the name with the commit as its revision.
func Find(n Name, getenv func(string) string) (path string, pinned Name, err error) {
	cache, err := Dir(getenv)
	if err != nil {
		return "", n, err
	}
	folder := n.Folder(cache)
	fail := func(err error) (string, Name, error) {
		return "", n, fmt.Errorf("find the model %s: %w", n, err)
	}
	missing := fmt.Errorf("%w (%s)", ErrNotCached, cache)
	pinned = n
	if !CommitForm().MatchString(n.Revision) {
		data, err := regular.Read(filepath.Join(folder, Refs, cmp.Or(n.Revision, DefaultRevision)), 1<<10)
		if errors.Is(err, fs.ErrNotExist) {
			return fail(missing)
		}
		if err != nil {
			return fail(err)
		}
		pinned.Revision = strings.TrimSpace(string(data))
		if !CommitForm().MatchString(pinned.Revision) {
			return fail(fmt.Errorf("%s does not name a commit", filepath.Join(folder, Refs)))
		}
	}
	path = filepath.Join(folder, Snapshots, pinned.Revision)
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(missing)
	}
	if err != nil {
		return fail(err)
	}
	if n.File == "" {
		if pinned.File, err = onlyGGUF(entries); err != nil {
			return fail(err)
		}
	}
	if pinned.File == "" {
		return path, pinned, nil
	}
	path = filepath.Join(path, pinned.File)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fail(missing)
	}
	return path, pinned, nil
}

// onlyGGUF returns the GGUF file of a snapshot that has no config.json.
func onlyGGUF(entries []fs.DirEntry) (string, error) {
	var files []string
	for _, e := range entries {
		if e.Name() == "config.json" || e.Name() == "adapter_config.json" {
			return "", nil
		}
		if strings.EqualFold(filepath.Ext(e.Name()), ".gguf") {
			files = append(files, e.Name())
		}
	}
	if len(files) > 1 {
		return "", fmt.Errorf("it has several GGUF files: name one of %s, as in OWNER/NAME/%s",
			strings.Join(files, ", "), files[0])
	}
	return strings.Join(files, ""), nil
}

// File returns the path to open for a file in a folder: that of the blob if path is a link of the
// cache, models--X/snapshots/COMMIT/FILE -> ../../blobs/ETAG, and otherwise path itself. So a
// reader that follows no links reads a snapshot too, and only files of its own model.
func File(path string) string {
	commit := filepath.Dir(path)
	snapshots := filepath.Dir(commit)
	model := filepath.Dir(snapshots)
	if filepath.Base(snapshots) != Snapshots || !strings.HasPrefix(filepath.Base(model), "models--") ||
		!CommitForm().MatchString(filepath.Base(commit)) {
		return path
	}
	target, err := os.Readlink(path)
	etag, ok := strings.CutPrefix(filepath.ToSlash(target), "../../"+Blobs+"/")
	if err != nil || !ok || !ETagForm().MatchString(etag) {
		return path
	}
	for _, folder := range []string{commit, snapshots, filepath.Join(model, Blobs)} {
		if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
			return path
		}
	}
	return filepath.Join(model, Blobs, etag)
}
