package sweepdir

import "path/filepath"

// Arms are the names of the arms of runs by their folders, by the folder of their sweep. Each manifest
// is read once.
type Arms map[string]map[string]string

// Of is the name of the arm whose run is in the folder dir; empty for a run outside of a sweep.
func (a Arms) Of(dir string) string {
	path, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	sweep := filepath.Dir(filepath.Dir(path))
	names, known := a[sweep]
	if !known {
		names = map[string]string{}
		m, err := ReadManifest(sweep)
		if err == nil {
			for _, e := range m.Runs {
				names[e.Path(sweep)] = m.Arms[e.Arm].Name
			}
		}
		a[sweep] = names
	}
	return names[path]
}
