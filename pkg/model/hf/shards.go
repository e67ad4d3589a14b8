package hf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
	"grpo/pkg/model/safetensors"
)

// shards are the safetensors files of a folder. The one read last stays mapped into
// memory, because tensors are read in the order of the network.
type shards struct {
	dir    string
	fileOf map[string]string // by tensor; nil for a single file
	head   string            // the file of a head besides the embedding of a tied network; empty without
	name   string
	file   *safetensors.Reader
	unmap  func() error
	shapes map[string][]int // of the tensors in it
}

// Names of the weights in a folder: of a single file, or of the index of several.
const SingleFile, IndexFile = "model.safetensors", "model.safetensors.index.json"

// maxShard is the largest size of a file of weights, in bytes.
const maxShard = 1 << 40

// check reads the headers of all files and compares their tensors with those of the
// index and of the network.
func (s *shards) check(c *Config) error {
	files := []string{SingleFile}
	if s.fileOf != nil {
		files = slices.Compact(slices.Sorted(maps.Values(s.fileOf)))
	}
	found := map[string][]int{}
	for _, file := range files {
		path := at(s.dir, file)
		if err := regular.Check(path, maxShard); err != nil {
			return fmt.Errorf("%s lists a file that can't be read: %w (is the download complete?)", IndexFile, err)
		}
		header, err := safetensors.ReadHeader(path)
		if err != nil {
			return err
		}
		for _, t := range header.Tensors {
			if other, listed := s.fileOf[t.Name]; listed && other != file {
				return fmt.Errorf("files overlap: tensor %.80q is in %s, and %s says that it is in %s", t.Name, file, IndexFile,
					other)
			}
			found[t.Name] = t.Shape
			if t.Name == headWeight && c.Tied && !c.Score {
				s.head = file
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.fileOf)) {
		if _, ok := found[name]; !ok {
			return fmt.Errorf("%s says that tensor %.80q is in %s, but it is not", IndexFile, name, s.fileOf[name])
		}
	}
	return c.checkShapes(found)
}

// checkShapes compares the tensors of a checkpoint, by their Hugging Face names, with
// those of the network. Tensors of layers that the network does not have, such as a bias,
// are an error: without them it would be another network. Old checkpoints of Llama list
// their rotary frequencies.
func (c *Config) checkShapes(found map[string][]int) error {
	names, shapes := c.Shapes()
	for _, name := range names {
		switch shape, ok := found[name]; {
		case !ok:
			return fmt.Errorf("tensor %s is missing", name)
		case !slices.Equal(shape, shapes[name]):
			return fmt.Errorf("tensor %s has shape %v; the configuration asks for %v", name, shape, shapes[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		layer := strings.HasPrefix(name, "model.layers.") || strings.HasPrefix(name, "blk.")
		if _, ok := shapes[name]; !ok && layer && !strings.HasSuffix(name, ".rotary_emb.inv_freq") {
			return fmt.Errorf("tensor %.80q has no place in the configuration's network (%s, num_hidden_layers %d)", name,
				c.Arch, c.Layers)
		}
	}
	return nil
}

func newShards(dir string) (*shards, error) {
	// As in transformers, a single file comes before an index beside it.
	missing := regular.Check(at(dir, SingleFile), maxShard)
	if missing == nil {
		return &shards{dir: dir}, nil
	}
	data, err := optional(dir, IndexFile)
	if err != nil {
		return nil, err
	}
	if data == nil || !errors.Is(missing, fs.ErrNotExist) {
		return nil, fmt.Errorf("a Hugging Face folder needs %s or %s: %w", SingleFile, IndexFile, missing)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := jsonkeys.Decode(data, &index); err != nil {
		return nil, fmt.Errorf("read %s: %w", IndexFile, err)
	}
	for tensor, file := range index.WeightMap {
		if file == "" || file != filepath.Base(file) || strings.ContainsAny(file, `/\`) {
			return nil, fmt.Errorf("read %s: tensor %.80q is in %.80q, which is not a file of the folder", IndexFile, tensor,
				file)
		}
	}
	return &shards{dir: dir, fileOf: index.WeightMap}, nil
}

func (s *shards) read(name string, shape []int, out []float32) error {
	file := SingleFile
	if s.fileOf != nil {
		var ok bool
		if file, ok = s.fileOf[name]; !ok {
			return fmt.Errorf("%s does not list it", IndexFile)
		}
	}
	if err := s.open(file); err != nil {
		return err
	}
	found, ok := s.shapes[name]
	if !ok {
		return fmt.Errorf("it is not in %s", file)
	}
	if !slices.Equal(found, shape) {
		return fmt.Errorf("its shape is %v, want %v", found, shape)
	}
	if err := s.file.Into(name, out); err != nil || name != embedWeight || s.head == "" {
		return err
	}
	if err := s.open(s.head); err != nil {
		return err
	}
	same, err := s.file.Equal(headWeight, out)
	if err == nil && !same {
		err = fmt.Errorf("%s differs from it, but config.json says that the two are one (tie_word_embeddings is true, or "+
			"left out and true for this network): set tie_word_embeddings to false there", headWeight)
	}
	return err
}

// open maps a file, unless it is the one read last.
func (s *shards) open(file string) error {
	if s.name == file {
		return nil
	}
	if err := s.close(); err != nil {
		return err
	}
	path := at(s.dir, file)
	data, unmap, err := mapFile(path, regular.Open)
	if err != nil {
		return err
	}
	s.unmap = unmap
	f, err := safetensors.NewReader(path, bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	s.name, s.file, s.shapes = file, f, make(map[string][]int, len(f.Tensors))
	for _, t := range f.Tensors {
		s.shapes[t.Name] = t.Shape
	}
	return nil
}

func (s *shards) close() (err error) {
	if s.unmap != nil {
		err = s.unmap()
	}
	s.name, s.file, s.unmap = "", nil, nil
	return err
}
