package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"grpo/internal/hubcache"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/pkg/model/hf"
)

// repo is what the Hub says of a revision.
type repo struct {
	Commit string    `json:"sha"`
	Files  []sibling `json:"siblings"`
}

type sibling struct {
	Name string `json:"rfilename"`
}

func (r *repo) has(name string) bool { return slices.Contains(r.Files, sibling{name}) }

// maxListing bounds the Hub's list of a model's files, in bytes.
const maxListing = 64 << 20

// list asks for the commit of a revision and its files.
func (c *Client) list(ctx context.Context, n hubcache.Name, revision string) (*repo, error) {
	address := fmt.Sprintf("%s/api/models/%s/revision/%s", c.Endpoint, n.ID(), url.PathEscape(revision))
	var out repo
	err := c.retry(ctx, n.ID(), func() (bool, error) {
		r, cancel, err := c.do(ctx, http.MethodGet, address, nil, false)
		if err != nil {
			return false, err
		}
		defer cancel()
		defer r.Body.Close()
		data, err := io.ReadAll(io.LimitReader(r.Body, maxListing))
		if err != nil {
			return false, err
		}
		if err := json.Unmarshal(data, &out); err != nil {
			return false, permanent{fmt.Errorf("its answer is not the Hub's list of files: %w", err)}
		}
		return false, nil
	})
	if err == nil && !hubcache.CommitForm().MatchString(out.Commit) {
		err = errors.New("its answer is not the Hub's list of files: it names no commit")
	}
	if err != nil {
		return nil, c.explain(err, n, revision)
	}
	return &out, nil
}

// choose lists the files to download, without the shards that an index names.
func (r *repo) choose(gguf string) ([]string, error) {
	var ggufs, others []string
	for _, f := range r.Files {
		switch ext := strings.ToLower(path.Ext(f.Name)); {
		case ext == ".gguf" && !strings.Contains(f.Name, "/"):
			ggufs = append(ggufs, f.Name)
		case ext == ".bin" || ext == ".pt" || ext == ".pth":
			others = append(others, f.Name)
		}
	}
	if gguf != "" {
		if r.has(gguf) {
			return []string{gguf}, nil
		}
		if len(ggufs) == 0 {
			return nil, fmt.Errorf("it has no GGUF files (leave --gguf out)")
		}
		return nil, fmt.Errorf("it has no file %s%s; its GGUF files are %s",
			textutil.Quote(gguf), suggest.DidYouMean(gguf, ggufs), textutil.Printable(strings.Join(ggufs, ", "), 600))
	}
	var out []string
	for _, name := range append(slices.Clone(hf.SideFiles), hf.AdapterConfigFile) {
		if r.has(name) {
			out = append(out, name)
		}
	}
	switch {
	case r.has(hf.SingleFile): // first, as in transformers
		return append(out, hf.SingleFile), nil
	case r.has(hf.IndexFile):
		return append(out, hf.IndexFile), nil
	case r.has(hf.AdapterConfigFile) && r.has(hf.AdapterWeightsFile):
		return append(out, hf.AdapterWeightsFile), nil
	case len(ggufs) > 0:
		return nil, fmt.Errorf("it has no %s; choose one of its GGUF files with --gguf: %s",
			hf.SingleFile, textutil.Printable(strings.Join(ggufs, ", "), 600))
	case len(others) > 0:
		return nil, fmt.Errorf("it has no %s, only %s, which can run code when it is loaded and is not read "+
			"(look for a revision with safetensors)", hf.SingleFile, textutil.Show(others[0]))
	}
	return nil, fmt.Errorf("it has no weights: neither %s nor a GGUF file", hf.SingleFile)
}

// explain adds the reason and the fix to an answer of the Hub.
func (c *Client) explain(err error, n hubcache.Name, revision string) error {
	var s *statusError
	if !errors.As(err, &s) {
		return err
	}
	const token = "HF_TOKEN to a token with read access (from the site's settings, Access Tokens)"
	page := c.Endpoint + "/" + n.ID()
	switch {
	case s.code == http.StatusUnauthorized && c.Token == "":
		return fmt.Errorf("%w: there is no such model, or it needs a token: check the name, or set %s", err, token)
	case s.code == http.StatusUnauthorized:
		return fmt.Errorf("%w: HF_TOKEN is not valid there: set %s", err, token)
	case s.code == http.StatusForbidden && c.Token == "":
		return fmt.Errorf("%w: access is restricted: accept the terms at %s, and set %s", err, page, token)
	case s.code == http.StatusForbidden:
		return fmt.Errorf("%w: the owner of HF_TOKEN has no access: accept the terms at %s", err, page)
	case s.code == http.StatusNotFound &&
		(s.hint == "RevisionNotFound" || s.hint == "" && revision != hubcache.DefaultRevision):
		return fmt.Errorf("%w: it has no revision %s, or the model does not exist (see %s)",
			err, textutil.Quote(revision), page)
	case s.code == http.StatusNotFound:
		return fmt.Errorf("%w: there is no such model or file (see %s)", err, page)
	}
	return err
}
