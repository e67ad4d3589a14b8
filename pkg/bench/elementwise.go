package bench

import (
	"fmt"

	"grpo/pkg/model/kernel"
)

// work is a kernel other than a matmul.
type work struct {
	name, shape string
	units       int
	run         func()
}

func elementwise() []work {
	var out []work
	for _, h := range []int{64, 128} {
		const rows = 36
		gi, gh, bias := fill(rows*3*h), fill(rows*3*h), fill(3*h)
		state, next, save := fill(rows*h), make([]float32, rows*h), make([]float32, rows*4*h)
		gates, dgh, dh := make([]float32, rows*4*h), make([]float32, rows*3*h), make([]float32, rows*h)
		shape := fmt.Sprintf("%d states of %d", rows, h)
		kernel.GRUForward(rows, h, gi, gh, bias, bias, state, next, gates)
		out = append(out,
			work{"gru forward", shape, rows * h, func() {
				kernel.GRUForward(rows, h, gi, gh, bias, bias, state, next, save)
			}},
			work{"gru backward", shape + ", with a copy of the gates", rows * h, func() {
				copy(save, gates)
				kernel.GRUBackward(rows, h, state, next, save, dgh, dh)
			}})
	}
	const rows, v = 128, 100
	logits, probs := fill(rows*v), make([]float32, rows*v)
	targets, logp, entropy := make([]int, rows), make([]float32, rows), make([]float32, rows)
	dlogp, dent, d := fill(rows), fill(rows), make([]float32, rows*v)
	kernel.LogSoftmaxGather(rows, v, logits, 1, targets, logp, entropy, probs)
	shape := fmt.Sprintf("%d rows of %d", rows, v)
	out = append(out,
		work{"log-softmax, gather, entropy", shape, rows * v, func() {
			kernel.LogSoftmaxGather(rows, v, logits, 1, targets, logp, entropy, probs)
		}},
		work{"its gradient", shape, rows * v, func() {
			kernel.LogSoftmaxBackward(rows, v, probs, logp, entropy, targets, dlogp, dent, 1, d)
		}})

	const n = 62820
	w, g, m, s := fill(n), fill(n), make([]float32, n), make([]float32, n)
	const table = 192
	ids, sums := make([]int, 2048), make([]float32, v*table)
	for i := range ids {
		ids[i] = i * 7 % v
	}
	x := fill(len(ids) * table)
	return append(out,
		work{"adamw", fmt.Sprintf("%d weights", n), n, func() {
			kernel.AdamW(w, g, m, s, 1e-6, 0.9, 0.95, 1e-8, 0, 1, 1)
		}},
		work{"sum of squares", fmt.Sprintf("%d weights", n), n, func() { kernel.SumSquares(g) }},
		work{"scatter-add", fmt.Sprintf("%d rows of %d", len(ids), table), len(ids) * table, func() {
			kernel.ScatterAdd(ids, table, x, table, v, sums, table)
		}},
		work{"column sums", fmt.Sprintf("%d rows of %d", len(ids), table), len(ids) * table, func() {
			kernel.ColSum(len(ids), table, x, table, false, sums)
		}})
}
