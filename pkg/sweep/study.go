package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// PrepareStudy writes study.json into dir, which is made, and returns the study
// in dir: with the choices of an earlier call, if there was one. The
// plan of the first part is only read, to say in what another request differs,
// which is refused ([config.ErrConfig]); so is a folder that holds something
// else.
func PrepareStudy(dir string, st sweepdir.Study, first *Plan) (sweepdir.Study, error) {
	var old *sweepdir.Study
	unlock, err := claim(dir, rundir.KindStudy, func() (err error) {
		old, err = FindStudy(dir, st, first)
		return err
	})
	if err != nil {
		return st, err
	}
	defer unlock()
	if old != nil {
		return *old, nil
	}
	return st, sweepdir.WriteStudy(dir, st)
}

// FindStudy returns the study in dir, nil if there is none, and refuses another
// than st, as [PrepareStudy] does. It writes nothing.
func FindStudy(dir string, st sweepdir.Study, first *Plan) (*sweepdir.Study, error) {
	old, err := sweepdir.ReadStudy(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case config.Outside(err):
		return nil, rundir.Explain(err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w (give another --out, or --fresh to start over in a new folder next to it)", config.ErrConfig, err)
	case old.Hash != st.Hash:
		return nil, fmt.Errorf("%w: %s holds another study (%s); give another --out, or --fresh to start over in a new folder next to it",
			config.ErrConfig, dir, strings.Join(studyDifferences(dir, old, st, first), "; "))
	}
	for _, p := range old.Parts {
		if _, err := p.Path(dir); err != nil {
			return nil, err
		}
	}
	return &old, nil
}

// studyDifferences says in what two studies differ: what was asked by flags,
// then the keys of the first part's configurations.
func studyDifferences(dir string, old, now sweepdir.Study, first *Plan) []string {
	var out []string
	for _, o := range now.Asked {
		i := slices.IndexFunc(old.Asked, func(x sweepdir.Override) bool { return x.Key == o.Key })
		switch {
		case i < 0:
			out = append(out, fmt.Sprintf("%s: %s", o.Key, o.Value))
		case old.Asked[i].Value != o.Value:
			out = append(out, fmt.Sprintf("%s: %s, now %s", o.Key, old.Asked[i].Value, o.Value))
		}
	}
	if m, err := sweepdir.ReadManifest(filepath.Join(dir, old.Parts[0].Name)); err == nil {
		out = append(out, runDifferences(m, first.Manifest)...)
	}
	if len(out) == 0 {
		out = []string{fmt.Sprintf("the runs of its parts: hash %s, now %s", old.Hash, now.Hash)}
	}
	return atMost(out)
}

// Settle writes the choices of a study, unless an earlier process has written its
// own, and returns the study in dir: the second process follows the first.
func Settle(dir string, st sweepdir.Study) (sweepdir.Study, error) {
	unlock, err := claim(dir, rundir.KindStudy, nil)
	if err != nil {
		return st, err
	}
	defer unlock()
	old, err := sweepdir.ReadStudy(dir)
	if err != nil {
		return st, err
	}
	if slices.ContainsFunc(old.Parts, func(p sweepdir.Part) bool { return len(p.Set) > 0 }) {
		return old, nil
	}
	return st, sweepdir.WriteStudy(dir, st)
}
