package sweepdir

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"grpo/internal/pattern"
)

// Check returns an error unless the manifest is consistent: names exist and are unique, each arm
// has each seed once, every run has a configuration, and folders are directly below [RunsDir].
func (m Manifest) Check() error {
	if err := checkFormat(m.Format); err != nil {
		return err
	}
	if m.Command == "" || m.Name == "" {
		return errors.New("command and name must not be empty")
	}
	if err := m.checkArms(); err != nil {
		return err
	}
	seeds := map[uint64]bool{}
	for i, s := range m.Seeds {
		if seeds[s] {
			return fmt.Errorf("seeds[%d]: seed %d again", i, s)
		}
		seeds[s] = true
	}
	if len(seeds) == 0 {
		return errors.New("no seeds")
	}
	for i, a := range m.Added {
		if len(a.Seeds) == 0 || a.Finished < 1 || a.Finished > a.Runs {
			return fmt.Errorf("added[%d]: %d seeds after %d of %d runs", i, len(a.Seeds), a.Finished, a.Runs)
		}
		for _, s := range a.Seeds {
			if !seeds[s] {
				return fmt.Errorf("added[%d]: seed %d is not among the seeds", i, s)
			}
		}
	}
	if err := cmp.Or(m.checkHalving(), m.checkLooks()); err != nil {
		return err
	}
	type pair struct {
		arm  int
		seed uint64
	}
	pairs, dirs := map[pair]bool{}, map[string]bool{}
	for i, e := range m.Runs {
		p := pair{e.Arm, e.Seed}
		if err := m.checkRun(i, seeds); err != nil {
			return fmt.Errorf("runs[%d]: %w", i, err)
		}
		if pairs[p] {
			return fmt.Errorf("runs[%d]: arm %q with seed %d again", i, m.Arms[e.Arm].Name, e.Seed)
		}
		if dirs[e.Dir] {
			return fmt.Errorf("runs[%d]: dir %q again", i, e.Dir)
		}
		pairs[p], dirs[e.Dir] = true, true
	}
	if want := len(m.Arms) * len(m.Seeds); len(m.Runs) != want {
		return fmt.Errorf("%d runs, want %d: each of %d arms with each of %d seeds", len(m.Runs), want,
			len(m.Arms), len(m.Seeds))
	}
	if id := m.Identity(); m.Hash != id {
		return fmt.Errorf("hash %q is not that of its runs (%s): the file was edited", m.Hash, id)
	}
	return nil
}

func (m Manifest) checkArms() error {
	axes, arms := map[string]bool{}, map[string]bool{}
	for i, a := range m.Axes {
		if a.Key == "" || len(a.Values) == 0 {
			return fmt.Errorf("axes[%d]: an axis needs a key and values", i)
		}
		if axes[a.Key] {
			return fmt.Errorf("axes[%d]: key %q again", i, a.Key)
		}
		if n := len(a.Written); n != 0 && n != len(a.Values) {
			return fmt.Errorf("axes[%d]: %d values are written as %d", i, len(a.Values), n)
		}
		axes[a.Key] = true
	}
	if m.BestOver != "" && !axes[m.BestOver] {
		return fmt.Errorf("best_over: %q is not an axis", m.BestOver)
	}
	for i, a := range m.Arms {
		if a.Name == "" {
			return fmt.Errorf("arms[%d]: it has no name", i)
		}
		if arms[a.Name] {
			return fmt.Errorf("arms[%d]: name %q again", i, a.Name)
		}
		arms[a.Name] = true
		if len(a.Point) != 0 && len(a.Point) != len(m.Axes) {
			return fmt.Errorf("arms[%d] (%s): a point of %d values on %d axes", i, a.Name, len(a.Point), len(m.Axes))
		}
	}
	if len(arms) == 0 {
		return errors.New("no arms")
	}
	if m.Reference != "" && !arms[m.Reference] {
		return fmt.Errorf("reference %q is not an arm", m.Reference)
	}
	return nil
}

func (m Manifest) checkRun(i int, seeds map[uint64]bool) error {
	e := m.Runs[i]
	name, below := strings.CutPrefix(e.Dir, RunsDir+"/")
	switch {
	case e.Index != i:
		return fmt.Errorf("index %d", e.Index)
	case e.Arm < 0 || e.Arm >= len(m.Arms):
		return fmt.Errorf("arm %d of %d", e.Arm, len(m.Arms))
	case !seeds[e.Seed]:
		return fmt.Errorf("seed %d is not among the seeds", e.Seed)
	case !below || !isFolderName(name):
		return fmt.Errorf("dir %q is not a folder directly below %s/", e.Dir, RunsDir)
	case e.Config == "":
		return errors.New("it has no configuration")
	case len(e.Hash) != 8 || strings.Trim(e.Hash, "0123456789abcdef") != "":
		return fmt.Errorf("hash %q is not 8 hex digits", e.Hash)
	}
	return nil
}

// Check returns an error unless the study is consistent: its parts have unique names, each valid as
// the name of a folder in the study's.
func (s Study) Check() error {
	if err := checkFormat(s.Format); err != nil {
		return err
	}
	if s.Name == "" {
		return errors.New("the study has no name")
	}
	if len(s.Parts) == 0 {
		return errors.New("no parts")
	}
	seen := map[string]bool{}
	for i, p := range s.Parts {
		if !isFolderName(p.Name) {
			return fmt.Errorf("parts[%d]: name %q is not that of a folder in this one", i, p.Name)
		}
		if seen[p.Name] {
			return fmt.Errorf("parts[%d]: name %q again", i, p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// Identity is the value of [Manifest.Hash]: the first 8 hex digits of the SHA-256 over the arms'
// names (as the first release wrote them, so that its sweeps are found), the seeds and the hashes
// of the runs' configurations, in any order. Titles, notes and the command line are not part of it.
func (m Manifest) Identity() string {
	var lines []string
	for _, e := range m.Runs {
		lines = append(lines, fmt.Sprintf("%q %d %s\n", m.oldName(m.Arms[e.Arm]), e.Seed, e.Hash))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:4])
}

var shortExponent = pattern.Of(`^(-?[0-9.]+)e(-?)([0-9]+)$`)

// oldNumber writes a number with an exponent as the first release did in names of arms: 1e-05 for
// 1e-5, 1e+06 for 1e6. Other values are unchanged.
func oldNumber(value string) string {
	m := shortExponent().FindStringSubmatch(value)
	if m == nil {
		return value
	}
	digits := m[3]
	if len(digits) == 1 {
		digits = "0" + digits
	}
	return m[1] + "e" + cmp.Or(m[2], "+") + digits
}

// oldName is the first release's name for an arm. Only the numbers of axis values differ, and only
// if the user did not name the arm.
func (m Manifest) oldName(arm Arm) string {
	name := arm.Name
	for i, value := range arm.Point[:min(len(arm.Point), len(m.Axes))] {
		axis := m.Axes[i].Short + "="
		if at := strings.LastIndex(name, axis+value); at >= 0 {
			name = name[:at] + axis + oldNumber(value) + name[at+len(axis+value):]
		}
	}
	return name
}
