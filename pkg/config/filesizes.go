package config

// useWholeFiles takes all validation and test problems of files, unless a size
// was given: the defaults are for generated problems, of which there is no end.
// The sizes of an embedded configuration count as given where they differ from
// the defaults, as in smoke.
func (l *Loaded[T]) useWholeFiles(embedded bool) {
	c, ok := any(&l.Config).(*Config)
	if !ok || c.Data.Source == "generated" {
		return
	}
	d := Default().Data
	for _, s := range []struct {
		key     string
		size    *int
		usually int
	}{{"data.val_size", &c.Data.ValSize, d.ValSize}, {"data.test_size", &c.Data.TestSize, d.TestSize}} {
		o := l.origins[s.key]
		if *s.size == s.usually && (o.Source == SourceDefault || o.Source == SourceFile && embedded) {
			*s.size = 0
			l.origins[s.key] = Origin{AskedBy: "data.source"}
		}
	}
}
