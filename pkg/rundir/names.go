package rundir

// TrainingPlot is the figure of training panels that a report draws next to
// [ValidationPlot].
const TrainingPlot = "training.png"

// Splits, as written in [Eval] and [Sample].
const (
	SplitTrain  = "train"
	SplitVal    = "val"
	SplitUnseen = "unseen" // facts that no stage of training saw
	SplitTest   = "test"
)

// Decodings, as written in [Sample].
const (
	DecodingSampled = "sampled"
	DecodingGreedy  = "greedy"
)

// States of a run, as written in [Status]; a [Result] is done or diverged.
const (
	StateRunning     = "running"
	StateDone        = "done"
	StateDiverged    = "diverged"
	StateInterrupted = "interrupted"
	StateFailed      = "failed"
)
