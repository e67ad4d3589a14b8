package analysis

import (
	"bytes"
	"encoding/json"
	"fmt"

	"grpo/pkg/rundir"
)

// Of is the arm's figure of a metric.
func (r *ArmResult) Of(m *Metric) Summary { return r.summaries[m.index] }

// Set replaces the arm's figure of a metric.
func (r *ArmResult) Set(m *Metric, f Summary) {
	if r.summaries == nil {
		r.summaries = make([]Summary, len(Metrics))
	}
	r.summaries[m.index] = f
}

// MarshalJSON writes the arm's fields, then a key for each metric.
func (r ArmResult) MarshalJSON() ([]byte, error) {
	type fields ArmResult // without this method
	data, err := rundir.Marshal(fields(r))
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSuffix(data, []byte("}"))
	for _, m := range Metrics {
		if m.Timed {
			continue
		}
		figure, err := rundir.Marshal(r.Of(m))
		if err != nil {
			return nil, err
		}
		data = fmt.Appendf(data, ",%q:%s", m.Name, figure)
	}
	return append(data, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes. A metric that is not there, as in a
// file of an earlier version, has no values; an unknown key is an error.
func (r *ArmResult) UnmarshalJSON(data []byte) error {
	type fields ArmResult // without this method
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return err
	}
	for _, m := range Metrics {
		text, ok := keys[m.Name]
		if !ok || m.Timed {
			text = []byte("{}")
		} else {
			delete(keys, m.Name)
		}
		var f Summary
		if err := rundir.Unmarshal(text, &f); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		r.Set(m, f)
	}
	rest, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	return rundir.Unmarshal(rest, (*fields)(r))
}
