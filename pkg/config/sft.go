package config

// DefaultSFT returns what a configuration of `grpo sft` leaves unsaid. It has no
// stages: the recipe of the embedded base model is configs/base.yaml, which
// [LoadSFT] reads when no other is named.
func DefaultSFT() SFT {
	c := Default()
	return SFT{
		Name: "sft", Seed: 1, Data: c.Data,
		Model:    Model{HiddenSize: c.Model.HiddenSize, NumLayers: c.Model.NumLayers, Init: "random", Device: c.Model.Device, Precision: c.Model.Precision},
		EvalSize: 1024,
	}
}

// DefaultStage returns what a stage leaves unsaid. Its name, corpus and number
// of steps have no default: validation asks for them.
func DefaultStage() Stage {
	return Stage{
		Examples: 20000, BatchSize: 64, LearningRate: 2e-3, FinalLRRatio: 0.02,
		AdamBetas: [2]float64{0.9, 0.95}, AdamEps: 1e-8, MaxGradNorm: 1,
		PromptLossWeight: 0.1, EveryNSteps: 100, AcceptSampledMax: 1,
	}
}
