// Package tensorboard writes event files for TensorBoard, which other trackers import too:
// the scalars of a run by step, and figures as images.
//
// An event file is a list of records (TFRecord): the length of the data as 8 bytes, little-endian, a
// checksum of these, the data, and a checksum of the data. The data are a protocol buffer of type
// tensorflow.Event. The messages used here are few and small, so they are encoded by hand; the
// numbers of their fields are those of event.proto and summary.proto in TensorFlow.
package tensorboard

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"grpo/pkg/rundir"
)

// Header begins an event file. wall is the start of the run, in seconds since 1970 like all times of
// this package.
func Header(wall float64) []byte {
	return record(appendBytes(appendDouble(nil, 1, wall), 3, []byte("brain.Event:2")))
}

// Scalars is the event of the numbers after a step. It leaves out those that are not finite, and
// stores the others as float32, as TensorBoard does.
func Scalars(wall float64, step int, values []rundir.Scalar) []byte {
	var summary []byte
	for _, s := range values {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			continue
		}
		value := appendBytes(nil, 1, []byte(s.Name))
		value = append(value, 2<<3|fixed32)
		value = binary.LittleEndian.AppendUint32(value, math.Float32bits(float32(s.Value)))
		summary = appendBytes(summary, 1, value)
	}
	return event(wall, step, summary)
}

// Image is the event of a PNG file with its size in pixels.
func Image(wall float64, step int, tag string, png []byte, width, height int) []byte {
	const rgba = 4
	image := appendInt(nil, 1, height)
	image = appendInt(image, 2, width)
	image = appendInt(image, 3, rgba)
	image = appendBytes(image, 4, png)
	value := appendBytes(nil, 1, []byte(tag))
	value = appendBytes(value, 4, image)
	return event(wall, step, appendBytes(nil, 1, value))
}

func event(wall float64, step int, summary []byte) []byte {
	return record(appendBytes(appendInt(appendDouble(nil, 1, wall), 2, step), 5, summary))
}

// Wire types of protocol buffers: the low 3 bits of a field's tag.
const (
	varint  = 0
	fixed64 = 1
	bytes   = 2
	fixed32 = 5
)

func appendDouble(b []byte, field byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, field<<3|fixed64), math.Float64bits(v))
}

func appendInt(b []byte, field byte, v int) []byte {
	return binary.AppendUvarint(append(b, field<<3|varint), uint64(v))
}

func appendBytes(b []byte, field byte, v []byte) []byte {
	return append(binary.AppendUvarint(append(b, field<<3|bytes), uint64(len(v))), v...)
}

func record(data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, masked(out))
	out = append(out, data...)
	return binary.LittleEndian.AppendUint32(out, masked(data))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of a record: CRC-32C, rotated by 15 bits, plus a constant.
func masked(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return c>>15 | c<<17 + 0xa282ead8
}

// Timeline gives the events of a run their times: the start of the run plus the seconds of training,
// as if it had not been interrupted before its last start.
type Timeline struct{ start, now float64 }

// NewTimeline begins at the start in meta, which may be nil; without a readable start at 1970.
func NewTimeline(meta *rundir.Meta) *Timeline {
	t := &Timeline{}
	if meta != nil {
		if started, err := time.Parse(time.RFC3339, meta.Started); err == nil {
			t.start = float64(started.Unix()) - meta.ElapsedS
		}
	}
	t.now = t.start
	return t
}

// Step is the event of a line of metrics.
func (t *Timeline) Step(m rundir.Metrics) []byte {
	t.advance(m)
	return Scalars(t.now, m.Step, m.Scalars())
}

func (t *Timeline) advance(m rundir.Metrics) {
	if s := t.start + m.Time.ElapsedS; s > t.now { // false for NaN
		t.now = s
	}
}

// Eval is the event of an evaluation. Its time is that of the step before.
func (t *Timeline) Eval(e rundir.Eval) []byte { return Scalars(t.now, e.Step, e.Scalars()) }

// Now is the time of the last event.
func (t *Timeline) Now() float64 { return t.now }

// End is the time of the last event of a run.
func End(r *rundir.Run) float64 {
	t := NewTimeline(r.Meta)
	for _, m := range r.Metrics {
		t.advance(m)
	}
	return t.now
}

// Run returns the start of an event file with all steps and evaluations of a run, ordered by step,
// and the timeline for what follows.
func Run(r *rundir.Run) ([]byte, *Timeline) {
	t := NewTimeline(r.Meta)
	out := Header(t.start)
	evals := r.Evals
	for _, m := range r.Metrics {
		for ; len(evals) > 0 && evals[0].Step <= m.Step; evals = evals[1:] {
			out = append(out, t.Eval(evals[0])...)
		}
		out = append(out, t.Step(m)...)
	}
	for _, e := range evals {
		out = append(out, t.Eval(e)...)
	}
	return out, t
}
