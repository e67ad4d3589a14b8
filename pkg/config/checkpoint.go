package config

import "fmt"

// Checkpoint is what a path in model.init or algorithm.teacher names.
type Checkpoint struct {
	File                  string // the safetensors file: the path, or one in that folder
	HiddenSize, NumLayers int
}

// useCheckpoints replaces a folder in model.init and algorithm.teacher by the
// weights in it, and takes the size of the model from model.init. A size that
// the user set to something else is an error. A path without a readable checkpoint
// is left for the loading of the weights to report. broken gets the keys that no
// rule need look at any more.
func (l *Loaded[T]) useCheckpoints(find func(path string) (Checkpoint, error), embedded bool, broken map[string]bool) (problems []string) {
	if find == nil {
		return nil
	}
	var m *Model
	paths := map[string]*string{}
	switch c := any(&l.Config).(type) {
	case *Config:
		m = &c.Model
		paths["algorithm.teacher"] = &c.Algorithm.Teacher
	case *SFT:
		m = &c.Model
	}
	paths["model.init"] = &m.Init
	for _, key := range []string{"model.init", "algorithm.teacher"} {
		path := paths[key]
		if path == nil || *path == "" || *path == "base" || *path == "random" {
			continue
		}
		found, err := find(*path)
		if err != nil {
			broken[key] = true
			problems = append(problems, fmt.Sprintf("%s (%s, %s): %v", key, *path, l.origins[key], err))
		}
		if err != nil || found.File == "" {
			continue
		}
		*path = found.File
		if key != "model.init" {
			continue
		}
		for _, size := range []struct {
			key   string
			value *int
			want  int
		}{{"model.hidden_size", &m.HiddenSize, found.HiddenSize}, {"model.num_layers", &m.NumLayers, found.NumLayers}} {
			o := l.origins[size.key]
			byUser := o.Source > SourceFile || o.Source == SourceFile && !embedded
			switch {
			case *size.value == size.want:
			case byUser:
				problems = append(problems, fmt.Sprintf("%s (%d, %s) contradicts model.init (%s, %s): the model there has %d; leave %s out and it follows the checkpoint",
					size.key, *size.value, o, *path, l.origins[key], size.want, size.key))
			default:
				*size.value = size.want
				l.origins[size.key] = Origin{AskedBy: "model.init"}
			}
		}
	}
	return problems
}
