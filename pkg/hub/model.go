package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/hubcache"
	"grpo/internal/pattern"
	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/model/hf"
	"grpo/pkg/rundir"
)

// Hub is the address of the Hugging Face Hub.
const Hub = "https://huggingface.co"

// ModelRequest says which model goes into which cache.
type ModelRequest struct {
	// Name is the model; with a File only this GGUF file is downloaded.
	Name  hubcache.Name
	Cache string // the folder of the cache
	// Room returns an error if the bytes do not fit onto the disk of a folder; nil = no check.
	Room func(dir string, bytes int64) error
}

// Model is a model in the cache.
type Model struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
	Path   string `json:"path"` // the snapshot's folder, or the GGUF file
	Files  []File `json:"files"`
}

// File is a downloaded file.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Sum is the hash that was checked: "sha256:..." or, of a small file on the Hub,
	// "git-sha1:...".
	Sum string `json:"sum"`
	// Present: the file was there before, with this hash.
	Present bool `json:"present"`
}

// PullModel downloads the files that the readers of package hf need into the Hugging Face cache.
// The revision's name is written last, so that it never refers to an incomplete snapshot.
func (c *Client) PullModel(ctx context.Context, q ModelRequest) (*Model, error) {
	m, err := c.pullModel(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("download the model %s from %s: %w", q.Name, c.Endpoint, err)
	}
	return m, nil
}

func (c *Client) pullModel(ctx context.Context, q ModelRequest) (*Model, error) {
	revision := cmp.Or(q.Name.Revision, hubcache.DefaultRevision)
	repo, err := c.list(ctx, q.Name, revision)
	if err != nil {
		return nil, err
	}
	names, err := repo.choose(q.Name.File)
	if err != nil {
		return nil, err
	}
	p := &pull{Client: c, request: q, commit: repo.Commit, folder: q.Name.Folder(q.Cache)}
	p.snapshot = filepath.Join(p.folder, hubcache.Snapshots, p.commit)
	p.locks = filepath.Join(q.Cache, ".locks", filepath.Base(p.folder))
	if err := p.folders(); err != nil {
		return nil, err
	}
	// The first two decide whether and what else is downloaded.
	for _, name := range []string{"config.json", hf.IndexFile} {
		if i := slices.Index(names, name); i >= 0 {
			if err := p.get(ctx, name); err != nil {
				return nil, err
			}
			names = slices.Delete(names, i, i+1)
			if names, err = p.inspect(name, names); err != nil {
				return nil, err
			}
		}
	}
	if err := p.get(ctx, names...); err != nil {
		return nil, err
	}
	if revision != p.commit {
		if err := rundir.WriteFileAtomic(filepath.Join(p.folder, hubcache.Refs, revision), []byte(p.commit)); err != nil {
			return nil, err
		}
	}
	return &Model{Name: q.Name.String(), Commit: p.commit, Path: filepath.Join(p.snapshot, q.Name.File),
		Files: p.files}, nil
}

// pull is a download of one model.
type pull struct {
	*Client
	request                  ModelRequest
	commit, folder, snapshot string
	locks                    string // the folder of the locks of huggingface_hub
	files                    []File
}

// folders makes the folders of the model in the cache, of which none may be a link: a write would go
// elsewhere.
func (p *pull) folders() error {
	for _, dir := range []string{
		filepath.Join(p.folder, hubcache.Refs), filepath.Join(p.folder, hubcache.Blobs), filepath.Dir(p.snapshot), p.snapshot,
		filepath.Dir(p.locks), p.locks,
	} {
		if _, err := rundir.Subfolder(filepath.Split(dir)); err != nil {
			return err
		}
	}
	return nil
}

var shardForm = pattern.Of(`^[\w][\w.-]*\.safetensors$`)

// inspect reads a file that was downloaded, and returns the names of the others.
func (p *pull) inspect(name string, others []string) ([]string, error) {
	data, err := regular.Read(hubcache.File(filepath.Join(p.snapshot, name)), regular.MaxDocument)
	if err != nil {
		return nil, err
	}
	if name == "config.json" {
		if _, err := hf.ParseConfig(data, nil); err != nil {
			return nil, fmt.Errorf("no weights were downloaded, because this model is not supported: %w", err)
		}
		return others, nil
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("read %s: %w", hf.IndexFile, err)
	}
	var shards []string
	for _, file := range index.WeightMap {
		if !shardForm().MatchString(file) {
			return nil, fmt.Errorf("read %s: %s is not the name of a safetensors file", hf.IndexFile, textutil.Show(file))
		}
		shards = append(shards, file)
	}
	slices.Sort(shards)
	return append(others, slices.Compact(shards)...), nil
}

// get downloads files of the model that are not in the cache. Blobs that are there are hashed.
func (p *pull) get(ctx context.Context, names ...string) error {
	var want []file
	var bytes int64
	for _, name := range names {
		f, err := p.head(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, p.explain(err, p.request.Name, p.commit))
		}
		want = append(want, f)
		have, there, err := exists(p.blob(f))
		if err == nil && !there {
			have, _, err = exists(p.blob(f) + unfinished)
		}
		if err != nil {
			return err
		}
		if f.size < 0 {
			f.size = f.limit // as far as the disk goes
		}
		bytes += max(0, f.size-have)
	}
	if p.request.Room != nil {
		if err := p.request.Room(p.folder, bytes); err != nil {
			return err
		}
	}
	for _, f := range want {
		present, err := p.one(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, p.explain(err, p.request.Name, p.commit))
		}
		size, _, err := exists(p.blob(f))
		if err != nil {
			return err
		}
		kind := map[int]string{40: "git-sha1:", 64: "sha256:"}[len(f.sum)]
		p.files = append(p.files, File{f.name, size, kind + f.sum, present})
	}
	return nil
}

func (p *pull) blob(f file) string { return filepath.Join(p.folder, hubcache.Blobs, f.sum) }

// one downloads one file and links it into the snapshot.
func (p *pull) one(ctx context.Context, f file) (present bool, err error) {
	unlock, err := p.lock(ctx, f.name, filepath.Join(p.locks, f.sum+".lock"))
	if err != nil {
		return false, err
	}
	defer unlock()
	blob := p.blob(f)
	if _, there, err := exists(blob); err != nil {
		return false, err
	} else if there {
		sum, err := hashFile(blob, f.sum)
		if err != nil {
			return false, err
		}
		if present = sum == f.sum; !present {
			p.note("%s: the copy in the cache is damaged; downloading it again", f.name)
			if err := os.Remove(blob); err != nil {
				return false, err
			}
		}
	}
	if !present {
		if err := p.fetch(ctx, f, blob); err != nil {
			return false, err
		}
	}
	return present, link(f.sum, blob, filepath.Join(p.snapshot, f.name))
}

// link makes name, a file of a snapshot, a link to a blob, or without links a second name of it.
func link(etag, blob, name string) error {
	target := "../../" + hubcache.Blobs + "/" + etag
	if old, err := os.Readlink(name); err == nil && filepath.ToSlash(old) == target {
		return nil
	}
	temp := name + ".grpo-tmp"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if os.Symlink(filepath.FromSlash(target), temp) != nil {
		if err := os.Link(blob, temp); err != nil {
			return rundir.Explain(err)
		}
	}
	return rundir.Rename(temp, name)
}

// head asks for the hash and the size of a file: the Hub sends them before it redirects to the
// server that has a large file.
func (p *pull) head(ctx context.Context, name string) (f file, err error) {
	f = file{name: name, size: -1,
		url: fmt.Sprintf("%s/%s/resolve/%s/%s", p.Endpoint, p.request.Name.ID(), p.commit, url.PathEscape(name))}
	err = p.retry(ctx, name, func() (bool, error) {
		r, cancel, err := p.do(ctx, http.MethodHead, f.url, nil, true)
		if err != nil {
			return false, err
		}
		defer cancel()
		defer r.Body.Close()
		etag := cmp.Or(r.Header.Get("X-Linked-Etag"), r.Header.Get("ETag"))
		f.sum = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
		if !hubcache.ETagForm().MatchString(f.sum) {
			return false, permanent{fmt.Errorf("the server gives no hash of it (ETag %s), so it can't be checked",
				textutil.Show(etag))}
		}
		size := r.Header.Get("X-Linked-Size")
		if size == "" && r.StatusCode/100 == 2 {
			size = r.Header.Get("Content-Length")
		}
		if n, err := strconv.ParseInt(size, 10, 64); err == nil && n >= 0 {
			f.size = n
		}
		return false, nil
	})
	switch weights := slices.Contains([]string{".safetensors", ".gguf"}, strings.ToLower(path.Ext(name))); {
	case err != nil:
	case !weights:
		if f.limit = regular.MaxDocument; f.size > f.limit {
			err = f.tooLarge()
		}
	case f.size < 0:
		err = errors.New("the server does not say its size, so it could fill the disk (use another server with --mirror)")
	}
	return f, err
}
