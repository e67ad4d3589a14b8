package report

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// The sentences of [methods]. Each is made of clauses that are left out where a key differs by arm.

func (m *methods) model() string {
	c := m.config.Model
	number := ""
	if all := analysis.Unique(m.runs, parametersOf); len(all) == 1 {
		number = all[0]
	}
	var text string
	switch c.Init {
	case "base", "random":
		start := "the embedded base model"
		if c.Init == "random" {
			start = "random weights"
		}
		text = fmt.Sprintf("The policy was a TinyLM, a GRU language model with %s of width %d", textutil.Count(c.NumLayers, "layer"), c.HiddenSize)
		if number != "" {
			text += " (" + number + ")"
		}
		text = m.clause(text+", initialized with "+start, "model.init", "model.hidden_size", "model.num_layers", "train.lora.rank")
	default:
		text = "The policy was " + path.Base(filepath.ToSlash(c.Init))
		if number != "" {
			text += " (" + number + ")"
		}
		text = m.clause(text, "model.init", "model.hidden_size", "model.num_layers", "train.lora.rank")
		if l := m.config.Train.LoRA; l.Rank > 0 && text != "" {
			text += m.clause(fmt.Sprintf(" with LoRA adapters of rank %d and alpha %s on %s", l.Rank, textutil.Number(l.Alpha), listed(l.Targets)),
				"train.lora.alpha", "train.lora.targets")
		}
	}
	if text == "" {
		return ""
	}
	return text + m.clause(" and trained in "+c.Precision, "model.precision") + "."
}

func (m *methods) problems() string {
	d := m.config.Data
	text := m.clause("Training used the problems of "+d.TrainFile, "data.source", "data.train_file")
	if d.Source == "generated" {
		text = m.clause("Training used generated one-step word problems", "data.source")
		if text != "" {
			text += m.clause(fmt.Sprintf(" (generator seed %d)", d.GeneratorSeed), "data.generator_seed")
		}
	}
	if text == "" {
		return ""
	}
	return text + m.clause(fmt.Sprintf(" with the prompt template %s", d.PromptTemplate), "data.prompt_template") + "."
}

func (m *methods) rollout() string {
	r, n := m.config.Rollout, m.config.Train.NGRPOSteps
	if m.config.Algorithm.FromFile() {
		return m.clause(fmt.Sprintf("Training took %s on %s of a file each.", textutil.Count(n, "step"),
			textutil.Count(r.RolloutBatchSize/2, "preference pair")), "train.n_grpo_steps", "rollout.rollout_batch_size")
	}
	text := m.clause(fmt.Sprintf("Training took %s. ", textutil.Count(n, "step")), "train.n_grpo_steps") + "Each step sampled"
	prompts := m.clause(fmt.Sprintf(" %s for each of %s", textutil.Count(r.GroupSize, "completion"), textutil.Count(r.RolloutBatchSize/max(1, r.GroupSize), "prompt")),
		"rollout.rollout_batch_size", "rollout.group_size")
	text += cmp.Or(prompts, " groups of completions") + m.clause(" at temperature "+textutil.Number(r.SamplingTemperature), "rollout.sampling_temperature")
	if r.SamplingTopP != 1 {
		text += m.clause(" and top-p "+textutil.Number(r.SamplingTopP), "rollout.sampling_top_p")
	}
	return text + m.clause(fmt.Sprintf(", with at most %s", textutil.Count(r.SamplingMaxTokens, "token")), "rollout.sampling_max_tokens") + "."
}

func (m *methods) rewards() string {
	c := m.config.Reward
	if m.config.Algorithm.FromFile() {
		return ""
	}
	var parts []string
	for i, name := range c.Functions {
		part := name
		if i < len(c.RewardWeights) && (len(c.Functions) > 1 || c.RewardWeights[i] != 1) {
			part += " (weight " + textutil.Number(c.RewardWeights[i]) + ")"
		}
		parts = append(parts, part)
	}
	text := "The reward was the function " + parts[0] + "."
	if len(parts) > 1 {
		text = "The reward was the weighted sum of " + listed(parts) + "."
	}
	return m.clause(text, "reward.functions", "reward.reward_weights")
}

var baselineWords = map[rl.Baseline]string{
	rl.BaselineGroupMean: "the mean of their group", rl.BaselineLeaveOneOut: "the mean of the others in their group",
	rl.BaselineBatchMean: "the mean of the batch", rl.BaselineLengthWeighted: "the length-weighted mean of their group",
	rl.BaselineGreedy: "the reward of the prompt's greedy completion",
}

var normalizerWords = map[rl.Normalizer]string{
	rl.NormalizerGroupStd: "divided by the group's sample standard deviation", rl.NormalizerBatchStd: "divided by the batch's standard deviation",
	rl.NormalizerGroupMean: "divided by the group's mean reward", rl.NormalizerWhiten: "whitened over the completions of the batch",
	rl.NormalizerGPG: "divided by the share of nonzero rewards", "whiten_tokens": "whitened over all tokens of the batch",
}

func (m *methods) advantages() string {
	a := m.config.Algorithm
	keys := []string{
		"algorithm.type", "algorithm.loss_type", "algorithm.baseline", "algorithm.normalizer", "algorithm.scale_rewards",
		"algorithm.use_std_normalization", "algorithm.pass_k", "reward.multi_objective_aggregation",
	}
	if a.Type != "grpo" || a.PassK || m.config.Reward.MultiObjectiveAggregation != "sum_then_normalize" {
		return "" // the list of other settings has the keys
	}
	baseline, normalizer := a.Advantages()
	minus, by := baselineWords[baseline], normalizerWords[normalizer]
	if minus == "" && by == "" {
		return m.clause("The raw rewards took the place of advantages.", keys[:len(keys)-1]...)
	}
	text := "Advantages were the rewards"
	if minus != "" {
		text += " minus " + minus
	}
	if by != "" {
		text += ", " + by
		if strings.HasPrefix(by, "divided by the group") || normalizer == rl.NormalizerBatchStd {
			text += " plus " + textutil.Number(a.AdvantageEps)
			keys = append(keys, "algorithm.advantage_eps")
		}
	}
	return m.clause(text+".", keys...)
}

var aggregationWords = map[rl.Aggregation]string{
	rl.MaskedMeanSeq: "averaged over the tokens of each completion and then over completions", rl.SeqMeanTokenMean: "averaged over the tokens of each completion and then over completions",
	rl.MaskedNormalizeSeq:  "summed over the tokens of each completion, divided by %s and averaged over completions",
	rl.SeqMeanTokenSumNorm: "summed over the tokens of each completion, divided by %s and averaged over completions",
	rl.Constant:            "summed over all tokens and divided by %s",
	rl.TokenMean:           "averaged over all tokens of the batch", rl.TokenSum: "summed over all tokens of the batch",
	rl.SeqMeanTokenSum: "summed over the tokens of each completion and averaged over completions",
}

func (m *methods) loss() string {
	a := m.config.Algorithm
	if d := a.DPO; a.Type == "dpo" {
		return m.clause(fmt.Sprintf("The policy was trained by direct preference optimization with the loss %s and beta %s, with the "+
			"initial policy as reference.", strings.Join(d.LossType, " + "), textutil.Number(d.Beta)),
			"algorithm.type", "algorithm.dpo.loss_type", "algorithm.dpo.beta")
	}
	text := "The policy loss was " + a.LossType
	keys := []string{"algorithm.loss_type"}
	switch a.BaseLoss() {
	case rl.NoBaseline:
		text += ", each token's negative log-probability times the reward"
	case rl.ReinforceWithBaseline:
		text += ", each token's negative log-probability times the advantage"
	case rl.GRPOClip:
		if a.EpsilonHigh != 0 && a.EpsilonHigh != a.Cliprange {
			text += fmt.Sprintf(", with the importance ratio clipped to 1 - %s and 1 + %s", textutil.Number(a.Cliprange), textutil.Number(a.EpsilonHigh))
		} else {
			text += fmt.Sprintf(", with the importance ratio clipped to 1 ± %s", textutil.Number(a.Cliprange))
		}
		keys = append(keys, "algorithm.cliprange", "algorithm.epsilon_high")
	}
	text = m.clause(text, keys...)
	sum := aggregationWords[a.LengthNormalization]
	sumKeys := []string{"algorithm.length_normalization"}
	if strings.Contains(sum, "%s") {
		sum = fmt.Sprintf(sum, textutil.Number(a.NormalizeConstant))
		sumKeys = append(sumKeys, "algorithm.normalize_constant")
	}
	if sum != "" {
		sum = m.clause(sum, sumKeys...)
	}
	switch {
	case text == "" && sum == "":
		return ""
	case text == "":
		return "Token losses were " + sum + "."
	case sum == "":
		return text + "."
	}
	return text + "; token losses were " + sum + "."
}

func (m *methods) penalty() string {
	a := m.config.Algorithm
	if a.Type == "dpo" {
		return ""
	}
	if a.Beta == 0 {
		return m.clause("There was no KL penalty.", "algorithm.beta")
	}
	return m.clause(fmt.Sprintf("A KL penalty to the initial policy with the coefficient %s and the estimator %s was added to the %s.",
		textutil.Number(a.Beta), a.KLEstimator, a.KLIn), "algorithm.beta", "algorithm.kl_estimator", "algorithm.kl_in")
}

func (m *methods) optimizer() string {
	t := m.config.Train
	var settings []string
	add := func(text string, keys ...string) {
		if s := m.clause(text, keys...); s != "" {
			settings = append(settings, s)
		}
	}
	rate := "learning rate" + m.clause(" "+textutil.Number(t.LearningRate), "train.learning_rate")
	if t.LRScheduler == "constant" {
		settings = append(settings, m.clause("constant ", "train.lr_scheduler")+rate)
	} else {
		settings = append(settings, rate+m.clause(" with "+t.LRScheduler+" decay to 0", "train.lr_scheduler"))
	}
	if t.WarmupSteps > 0 {
		add("warm-up of "+textutil.Count(t.WarmupSteps, "update"), "train.warmup_steps")
	}
	add(fmt.Sprintf("betas %s and %s", textutil.Number(t.AdamBetas[0]), textutil.Number(t.AdamBetas[1])), "train.adam_betas")
	add("epsilon "+textutil.Number(t.AdamEps), "train.adam_eps")
	add("weight decay "+textutil.Number(t.WeightDecay), "train.weight_decay")
	text := "The optimizer was AdamW (" + strings.Join(settings, ", ") + ")"
	clip := fmt.Sprintf(" with the global gradient norm clipped at %s", textutil.Number(t.MaxGradNorm))
	if t.MaxGradNorm == 0 {
		clip = " without gradient clipping"
	}
	return text + m.clause(clip, "train.max_grad_norm") +
		m.clause(fmt.Sprintf("; each step made %s", textutil.Count(m.config.UpdatesPerStep(), "update")),
			"train.epochs_per_rollout_batch", "train.train_batch_size", "rollout.rollout_batch_size") + "."
}

func (m *methods) evaluation() string {
	e := m.config.Eval
	text := "The policy was evaluated on " + m.problemsIn(rundir.SplitVal, "held-out validation problems", "data.val_size") +
		m.clause(fmt.Sprintf(" before training, after every %s and after the last", ordinalSteps(e.EveryNSteps)), "eval.every_n_steps") + ", sampled" +
		m.clause(" at temperature "+textutil.Number(e.Temperature), "eval.temperature") +
		m.clause(fmt.Sprintf(" with at most %s", textutil.Count(e.MaxTokens, "token")), "eval.max_tokens")
	if greedy := m.clause(" and with greedy decoding", "eval.greedy"); e.Greedy {
		text += greedy
	}
	if test := m.problemsIn(rundir.SplitTest, "test problems", "data.test_size"); test != "test problems" {
		text += "; " + test + " were evaluated once, after training"
	}
	if unseen := m.problemsIn(rundir.SplitUnseen, "problems with unseen facts", "data.unseen_size"); unseen != "problems with unseen facts" {
		text += "; " + unseen + " were evaluated separately"
	}
	m.said = append(m.said, "eval.save_samples")
	return text + "."
}

// problemsIn is what with the number of problems of a split, if all runs have the same.
func (m *methods) problemsIn(split, what, key string) string {
	all := analysis.Unique(m.runs, func(r *rundir.Run) string {
		for _, e := range r.Evals {
			if e.Split == split {
				return thousands(e.Sampled.N)
			}
		}
		return ""
	})
	if len(all) != 1 {
		return what
	}
	return m.clause(all[0]+" ", key) + what
}

// ordinalSteps is "step" or "10 steps".
func ordinalSteps(n int) string {
	if n == 1 {
		return "step"
	}
	return textutil.Count(n, "step")
}
