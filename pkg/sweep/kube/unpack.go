package kube

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// Unpack freezes in the folder dir the sweep of a ConfigMap, which a pod sees as the folder from.
// All pods of a Job do it, and the first one writes.
//
// Errors: [config.ErrConfig] if the files can't be used or dir holds something else;
// [rundir.ErrInterrupted] when ctx ended before another process had released dir.
func Unpack(ctx context.Context, from, dir string) error {
	p, err := readPlan(from)
	if err != nil {
		return fmt.Errorf("%w: read the prepared sweep: %w", config.ErrConfig, err)
	}
	there, err := sweepdir.ReadManifest(dir)
	// It has the decisions at planned looks that were taken where the manifest was made.
	behind := func() bool { return there.LooksTaken() < p.Manifest.LooksTaken() }
	for err != nil || there.Hash != p.Manifest.Hash || behind() {
		var locked *rundir.LockedError
		err = sweep.Prepare(dir, p) // waits some seconds for another process that writes
		switch {
		case errors.As(err, &locked) && ctx.Err() != nil:
			return fmt.Errorf("%w before the sweep was written: %w", rundir.ErrInterrupted, err)
		case err == nil:
			there, err = sweepdir.ReadManifest(dir)
		}
		if err != nil && locked == nil {
			return err
		}
	}
	// The hash of a sweep does not depend on the order of its runs, but an index does.
	same := func(a, b sweepdir.Entry) bool { return a.Dir == b.Dir }
	if !slices.EqualFunc(there.Runs, p.Manifest.Runs, same) {
		return fmt.Errorf("%w: %s holds the same sweep with its runs in another order (another seed first?); "+
			"give another --out where the manifest is made", config.ErrConfig, dir)
	}
	return nil
}

// readPlan reads the files that [Render] put into the ConfigMap. In a pod they are links.
func readPlan(from string) (*sweep.Plan, error) {
	request, err := readFile(filepath.Join(from, sweepdir.RequestFile))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(from, zippedManifest)
	zipped, err := readFile(file)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(r, regular.MaxDocument))
	}
	p := &sweep.Plan{Request: request}
	if err == nil {
		err = rundir.Unmarshal(text, &p.Manifest)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

func readFile(path string) ([]byte, error) {
	f, err := regular.Named(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxConfigMap))
}

// RunAt returns the run at place index, from 0, of a list that [textutil.Ranges] wrote.
func RunAt(list string, index int) (int, error) {
	at := 0
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 31)
		last, err2 := strconv.ParseUint(to, 10, 31)
		if err1 != nil || err2 != nil || last < first {
			return 0, fmt.Errorf("%q in the list of runs %q is neither an index nor a range such as 5-9", part, list)
		}
		n := int(last-first) + 1
		if index < at+n {
			return int(first) + index - at, nil
		}
		at += n
	}
	return 0, fmt.Errorf("there is no place %d in the list of runs %q, which has %d", index, list, at)
}
