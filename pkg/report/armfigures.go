package report

import (
	"bytes"
	"encoding/json"
	"fmt"

	"grpo/pkg/rundir"
)

// of is the arm's figure of a metric.
func (r *ArmRow) of(m *metric) Figure { return r.figures[m.index] }

// set replaces the arm's figure of a metric.
func (r *ArmRow) set(m *metric, f Figure) {
	if r.figures == nil {
		r.figures = make([]Figure, len(metrics))
	}
	r.figures[m.index] = f
}

// MarshalJSON writes the arm's fields, then a key for each metric.
func (r ArmRow) MarshalJSON() ([]byte, error) {
	type fields ArmRow // without this method
	data, err := rundir.Marshal(fields(r))
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSuffix(data, []byte("}"))
	for _, m := range metrics {
		if m.timed {
			continue
		}
		figure, err := rundir.Marshal(r.of(m))
		if err != nil {
			return nil, err
		}
		data = fmt.Appendf(data, ",%q:%s", m.name, figure)
	}
	return append(data, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes. A metric that is not there, as in a
// file of an earlier version, has no values; an unknown key is an error.
func (r *ArmRow) UnmarshalJSON(data []byte) error {
	type fields ArmRow // without this method
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return err
	}
	for _, m := range metrics {
		text, ok := keys[m.name]
		if !ok || m.timed {
			text = []byte("{}")
		} else {
			delete(keys, m.name)
		}
		var f Figure
		if err := rundir.Unmarshal(text, &f); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		r.set(m, f)
	}
	rest, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	return rundir.Unmarshal(rest, (*fields)(r))
}
