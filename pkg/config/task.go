package config

import (
	"strconv"

	"grpo/pkg/task"
)

// Task are the parameters of a built-in task besides its difficulty.
type Task struct {
	MinDifficulty int    `yaml:"min_difficulty" in:"[0,100]" neutral:"0" needs:"task"`
	Symbols       string `yaml:"symbols" neutral:"" needs:"words"`
	Largest       int    `yaml:"largest" in:"[0,99]" neutral:"0" needs:"numbers"`
	Operators     string `yaml:"operators" neutral:"" needs:"numbers"`
	// Version is that of the task's generator, which the program writes.
	Version int `yaml:"version" in:"sizeOrNone" neutral:"0" needs:"task"`
}

// Builtin is the task that the source names; nil for the other sources.
func (d *Data) Builtin() *task.Task { return task.Of(d.Source) }

// Generated reports whether the program makes the problems, and reads no files of them.
func (d *Data) Generated() bool { return d.Source == "generated" || d.Builtin() != nil }

// useTask takes from the built-in task what was left open: the kind of its answers, its difficulty, and the version of
// its generator, so that this is part of the hash.
func (l *Loaded[T]) useTask() {
	keys := keysOf(&l.Config)
	const source = "data.source"
	k := keys.find(source)
	if k == nil {
		return
	}
	t := task.Of(k.value.String())
	if t == nil {
		return
	}
	l.adopt("data.answer", t.Answer, source, SourceDefault)
	for path, value := range map[string]int{"data.difficulty": t.Default, "data.task.version": t.Version} {
		if k := keys.find(path); k.value.Int() == 0 {
			k.value.SetInt(int64(value))
			l.origins[path] = Origin{AskedBy: source}
		}
	}
}

func (d *Data) validateTask(v *validator) {
	t := d.Builtin()
	if t == nil {
		return
	}
	for _, field := range []*int{&d.Difficulty, &d.Task.MinDifficulty} {
		if *field != 0 && (*field < t.Min || *field > t.Max) {
			v.reject("%s must be from %s to %s, the number of "+t.Unit+", because of %s", field, strconv.Itoa(t.Min),
				strconv.Itoa(t.Max), &d.Source)
		}
	}
	atMost(v, &d.Task.MinDifficulty, &d.Difficulty)
	v.compatible(d.Answer == t.Answer, &d.Answer, &d.Source,
		"answers of the task are of the kind "+t.Answer+" (leave it out)")
	if d.Task.Version != 0 && d.Task.Version != t.Version {
		v.reject("%s: this program has version %s of the task's generator, which makes other problems (leave the key out "+
			"to use it, or use the program of the earlier run)", &d.Task.Version, strconv.Itoa(t.Version))
	}
	if s := &d.Task.Symbols; t.Words && *s != "" {
		if err := task.CheckSymbols(*s); err != nil {
			v.reject("%s: %v", s, err)
		}
	}
	if s := &d.Task.Operators; t.Numbers && *s != "" {
		if err := task.CheckOperators(*s); err != nil {
			v.reject("%s: %v", s, err)
		}
	}
}
