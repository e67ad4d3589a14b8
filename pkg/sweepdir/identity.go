package sweepdir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Identity is the value of [Manifest.Hash]: the first 8 hex digits of the
// SHA-256 over the arms' names (as the first version wrote them, so that its
// sweeps are found), the seeds and the hashes of the runs' configurations (for a
// run without one: what its arm sets and the error). Their order does not matter: the same runs are the same sweep. Titles, notes
// and the command line do not enter.
func (m Manifest) Identity() string {
	var lines []string
	for _, e := range m.Runs {
		arm := m.Arms[e.Arm]
		name := m.oldName(arm)
		line := fmt.Sprintf("%q %d %s", name, e.Seed, e.Hash)
		if e.Config == "" {
			set := slices.Clone(arm.Set)
			for i := range set {
				set[i].Value = oldNumber(set[i].Value)
			}
			line = fmt.Sprintf("%q %d broken %q %q", name, e.Seed, set, e.Error)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	h := sha256.New()
	for _, l := range lines {
		fmt.Fprintln(h, l)
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

var shortExponent = regexp.MustCompile(`^(-?[0-9.]+)e(-?)([0-9]+)$`)

// oldNumber writes a number with an exponent as the first version did in the
// names of arms: 1e-05 for 1e-5, 1e+06 for 1e6. Anything else stays as it is.
func oldNumber(value string) string {
	m := shortExponent.FindStringSubmatch(value)
	if m == nil {
		return value
	}
	sign := "+"
	if m[2] != "" {
		sign = m[2]
	}
	if len(m[3]) == 1 {
		sign += "0"
	}
	return m[1] + "e" + sign + m[3]
}

// oldName is the name that the first version gave to an arm: the values of the
// axes in it are written otherwise, the name that somebody gave it is not.
func (m Manifest) oldName(arm Arm) string {
	name := arm.Name
	for i, value := range arm.Point {
		if old := oldNumber(value); i < len(m.Axes) && old != value {
			before, after := m.Axes[i].Short+"="+value, m.Axes[i].Short+"="+old
			if at := strings.LastIndex(name, before); at >= 0 {
				name = name[:at] + after + name[at+len(before):]
			}
		}
	}
	return name
}
