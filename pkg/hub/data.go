package hub

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/pkg/rundir"
)

// GitHub is the address of the files of public repositories.
const GitHub = "https://raw.githubusercontent.com"

// DataFile is a file of a data set; its content never changes.
type DataFile struct {
	Name   string // in the user's folder
	Path   string // below [GitHub] or a mirror of it
	Bytes  int64
	SHA256 string
}

// DataSet is a public set of problems.
type DataSet struct {
	Name  string
	About string
	Page  string // where it is from, with its license
	Files []DataFile
}

var dataSets = []DataSet{
	{"gsm8k", "GSM8K: 7473 training and 1319 test problems (Cobbe et al., 2021)",
		"https://github.com/openai/grade-school-math (MIT)",
		[]DataFile{
			{"train.jsonl", "openai/grade-school-math/master/grade_school_math/data/train.jsonl", 4166206,
				"17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465"},
			{"test.jsonl", "openai/grade-school-math/master/grade_school_math/data/test.jsonl", 749738,
				"3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14"},
		}},
	{"svamp", "SVAMP: 1000 problems for evaluation (Patel et al., 2021)", "https://github.com/arkilpatel/SVAMP (MIT)",
		[]DataFile{{"SVAMP.json", "arkilpatel/SVAMP/main/SVAMP.json", 339970,
			"5be77703a6d891ae476d7c082787ad361392aa02453b132516cdd5f4e7934e3e"}}},
}

// DataSets lists the data sets that [Client.PullData] knows.
func DataSets() []DataSet { return dataSets }

// FindDataSet returns the data set of a name. The error suggests a similar one.
func FindDataSet(name string) (DataSet, error) {
	var known []string
	for _, d := range dataSets {
		if d.Name == name {
			return d, nil
		}
		known = append(known, d.Name)
	}
	return DataSet{}, fmt.Errorf("there is no data set %s%s (there are %s)", textutil.Quote(name),
		suggest.DidYouMean(name, known), strings.Join(known, ", "))
}

// PullData downloads the files of a data set into a folder. A file that is there must have the right
// content.
func (c *Client) PullData(ctx context.Context, d DataSet, dir string) ([]File, error) {
	fail := func(f DataFile, err error) ([]File, error) {
		return nil, fmt.Errorf("download %s from %s/%s: %w", f.Name, c.Endpoint, f.Path, err)
	}
	var out []File
	for _, f := range d.Files {
		present, err := f.there(dir)
		if err != nil {
			return fail(f, err)
		}
		out = append(out, File{filepath.Join(dir, f.Name), f.Bytes, "sha256:" + f.SHA256, present})
	}
	for i, f := range d.Files {
		if out[i].Present {
			continue
		}
		if err := rundir.MkdirAll(dir); err != nil {
			return fail(f, err)
		}
		present, err := c.data(ctx, f, dir)
		if err != nil {
			return fail(f, err)
		}
		out[i].Present = present
	}
	return out, nil
}

// there reports whether the file is in a folder. One with other content is an error.
func (f DataFile) there(dir string) (bool, error) {
	path := filepath.Join(dir, f.Name)
	_, present, err := exists(path)
	if err != nil || !present {
		return false, err
	}
	sum, err := hashFile(path, f.SHA256)
	if err == nil && sum != f.SHA256 {
		err = fmt.Errorf("%s exists with other content (remove it, or use another --out)", path)
	}
	return true, err
}

// data downloads a file into a folder, unless another process has done it meanwhile.
func (c *Client) data(ctx context.Context, f DataFile, dir string) (present bool, err error) {
	path := filepath.Join(dir, f.Name)
	unlock, err := c.lock(ctx, f.Name, path+unfinished)
	if err != nil {
		return false, err
	}
	defer unlock()
	if present, err = f.there(dir); present || err != nil {
		_ = os.Remove(path + unfinished) // empty: the lock made it
		return present, err
	}
	return false, c.fetch(ctx, file{name: f.Name, url: c.Endpoint + "/" + f.Path, size: f.Bytes, sum: f.SHA256}, path)
}
