package hf

// olmo2 has RMSNorms of what attention and the feed-forward network return, in place of what they get.
var olmo2 = &architecture{name: "olmo2", title: "OLMo-2", classes: map[string]string{"olmo2": "Olmo2"},
	parts:    func(c *Config) { c.Norms, c.QKNorm, c.WholeQKNorm = NormAfter, true, true },
	defaults: map[string]defaults{"olmo2": {context: 2048, eps: 1e-5}},
	file:     func(_ *Config, m map[string]any) { m["attention_bias"] = false },
}
