package hf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/hubcache"
	"grpo/internal/jsonkeys"
	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/model/safetensors"
)

// The files of a PEFT folder.
const (
	AdapterConfigFile  = "adapter_config.json"
	AdapterWeightsFile = "adapter_model.safetensors"
)

// LoRA is the form of low-rank adapters, in PEFT's terms: to the output of each target
// they add scale·B·A·x.
type LoRA struct {
	Rank      int
	Alpha     float64
	Targets   []string // of [Targets]
	UseRSLoRA bool
}

// Scale is alpha/rank, or alpha/√rank with rank-stabilised LoRA (Kalajdzievski, 2023).
func (l LoRA) Scale() float64 {
	if l.UseRSLoRA {
		return l.Alpha / math.Sqrt(float64(l.Rank))
	}
	return l.Alpha / float64(l.Rank)
}

// Targets are the names of the modules that adapters can target: all linear layers.
func Targets() []string {
	var out []string
	for _, m := range new(Config).Modules() {
		out = append(out, m.Name)
	}
	return out
}

// AdapterTensor is one of the two matrices of a target.
type AdapterTensor struct {
	Name          string // as PEFT saves it
	Shape         []int  // A is (rank, in), B (out, rank)
	B             bool
	Weight        string // the tensor of the base that it adapts
	Layer, Target int    // Target is an index of [Targets]
}

// AdapterTensors lists the tensors of adapters in the order of the forward pass: for
// each matrix the A of its targets, then their B.
func (c *Config) AdapterTensors(l LoRA) []AdapterTensor {
	var out, b []AdapterTensor
	modules := c.Modules()
	for i := range c.Layers {
		for target, m := range modules {
			if slices.Contains(l.Targets, m.Name) {
				path := fmt.Sprintf("model.layers.%d.%s", i, m.path)
				t := AdapterTensor{Weight: path + ".weight", Layer: i, Target: target}
				t.Name, t.Shape = "base_model.model."+path+".lora_A.weight", []int{l.Rank, m.In}
				out = append(out, t)
				t.Name, t.Shape, t.B = "base_model.model."+path+".lora_B.weight", []int{m.Out, l.Rank}, true
				b = append(b, t)
			}
			if target+1 == len(modules) || modules[target+1].Role != m.Role { // the end of a matrix
				out, b = append(out, b...), nil
			}
		}
	}
	return out
}

// Adapter is the configuration of a PEFT folder.
type Adapter struct {
	LoRA
	Dir string
	// Base is base_model_name_or_path: the model that the adapters were trained on.
	Base string
	// Revision is that of a base on the Hub; empty for the default.
	Revision string
}

// IsAdapter reports whether path is a PEFT folder.
func IsAdapter(path string) bool {
	info, err := os.Stat(filepath.Join(path, AdapterConfigFile))
	return err == nil && info.Mode().IsRegular()
}

// irrelevant are the settings of adapter_config.json that do not change what adapters
// compute: labels, how they are trained, and parameters of methods that are off.
var irrelevant = []string{
	"auto_mapping", "inference_mode", "lora_dropout", "megatron_core", "peft_version", "qalora_group_size",
	"layers_pattern", "eva_config", "runtime_config", "ensure_weight_tying",
}

// ReadAdapter reads the configuration of a PEFT folder. A method or an option other than
// plain LoRA on the linear layers is an error that names it.
func ReadAdapter(dir string) (*Adapter, error) {
	data, err := regular.Read(at(dir, AdapterConfigFile), regular.MaxDocument)
	if err == nil {
		var a *Adapter
		if a, err = parseAdapter(data); err == nil {
			a.Dir = dir
			return a, nil
		}
	}
	return nil, fmt.Errorf("open adapter %s: %s: %w", dir, AdapterConfigFile, err)
}

func parseAdapter(data []byte) (*Adapter, error) {
	var settings map[string]json.RawMessage
	if err := jsonkeys.Decode(data, &settings); err != nil {
		return nil, err
	}
	var f struct {
		Type     string          `json:"peft_type"`
		Task     string          `json:"task_type"`
		Base     string          `json:"base_model_name_or_path"`
		Revision string          `json:"revision"`
		Bias     string          `json:"bias"`
		Rank     int             `json:"r"`
		Alpha    float64         `json:"lora_alpha"`
		RSLoRA   bool            `json:"use_rslora"`
		Init     json.RawMessage `json:"init_lora_weights"`
		Targets  json.RawMessage `json:"target_modules"`
	}
	f.Bias, f.Task = "none", "CAUSAL_LM"
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	switch init := strings.Trim(string(f.Init), `"`); init {
	case "", "null", "true", "false", "gaussian", "orthogonal", "eva":
	default:
		return nil, fmt.Errorf("init_lora_weights %s changes the weights of the base model, which is not supported",
			textutil.Quote(init))
	}
	switch {
	case f.Type != "LORA":
		return nil, fmt.Errorf("peft_type is %s; supported is LORA", textutil.Quote(f.Type))
	case f.Task != "CAUSAL_LM" && f.Task != "":
		return nil, fmt.Errorf("task_type is %s; supported is CAUSAL_LM", textutil.Quote(f.Task))
	case f.Bias != "none":
		return nil, fmt.Errorf("bias is %s; supported is none", textutil.Quote(f.Bias))
	case f.Rank < 1 || f.Rank > 1<<15:
		return nil, fmt.Errorf("r is %d; it must be from 1 to %d", f.Rank, 1<<15)
	case !positive(f.Alpha):
		return nil, fmt.Errorf("lora_alpha is %v; it must be more than 0 and in the range of float32", f.Alpha)
	}
	for _, name := range []string{"peft_type", "task_type", "base_model_name_or_path", "revision", "bias", "r", "lora_alpha",
		"use_rslora", "init_lora_weights", "target_modules"} {
		delete(settings, name)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		switch value := strings.Join(strings.Fields(string(settings[name])), ""); value {
		case "null", "false", "{}", "[]", `""`:
		default:
			if !slices.Contains(irrelevant, name) {
				return nil, fmt.Errorf("%s is %s, which is not supported", textutil.Show(name), textutil.Show(value))
			}
		}
	}
	targets, err := targetsOf(f.Targets)
	return &Adapter{LoRA: LoRA{f.Rank, f.Alpha, targets, f.RSLoRA}, Base: f.Base, Revision: f.Revision}, err
}

// targetsOf reads target_modules, in the order of [Targets].
func targetsOf(raw json.RawMessage) ([]string, error) {
	known := Targets()
	if string(raw) == `"all-linear"` {
		return known, nil
	}
	var names, out []string
	if json.Unmarshal(raw, &names) != nil || len(names) == 0 {
		return nil, fmt.Errorf("target_modules is %s; supported is a list of %s, or all-linear",
			textutil.Show(string(raw)), strings.Join(known, ", "))
	}
	for _, name := range names {
		module := name[strings.LastIndexByte(name, '.')+1:]
		if !slices.Contains(known, module) || name != module && name != "self_attn."+module && name != "mlp."+module {
			return nil, fmt.Errorf("target_modules has %s; supported are %s", textutil.Quote(name), strings.Join(known, ", "))
		}
	}
	for _, k := range known {
		if slices.ContainsFunc(names, func(name string) bool { return name == k || strings.HasSuffix(name, "."+k) }) {
			out = append(out, k)
		}
	}
	return out, nil
}

// BaseModel finds the base model: its path as written, relative to the adapters' folder
// or to the working directory, or its name in the Hugging Face cache, with the revision.
func (a *Adapter) BaseModel() (string, error) {
	paths := []string{a.Base}
	if !filepath.IsAbs(a.Base) {
		paths = []string{filepath.Join(a.Dir, a.Base), a.Base}
	}
	for _, path := range paths {
		if _, err := os.Stat(path); a.Base != "" && err == nil {
			return path, nil
		}
	}
	name := a.Base
	n, ok := hubcache.Parse(name)
	if ok && a.Revision != "" {
		n.Revision = a.Revision
		name = n.String()
		n, ok = hubcache.Parse(name) // a revision may be no part of a path
	}
	if ok {
		if _, _, err := hubcache.Find(n, os.Getenv); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("open adapter %s: its base model %s is not a path on this machine, nor a model in the "+
		"Hugging Face cache: name the folder or the GGUF file of that model with --set model.adapter_base=PATH", a.Dir,
		textutil.Quote(name))
}

// Read reads the weights of the adapters, in the order of [Config.AdapterTensors]; c is
// the base model's. Tensors that do not fit it are an error.
func (a *Adapter) Read(c *Config, base string) ([]safetensors.Tensor, error) {
	path := at(a.Dir, AdapterWeightsFile)
	if err := regular.Check(path, regular.MaxCheckpoint); err != nil {
		return nil, fmt.Errorf("open adapter %s: a PEFT folder needs %s: %w", a.Dir, AdapterWeightsFile, err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open adapter %s: %w", a.Dir, err)
	}
	defer f.Close()
	other := func(format string, args ...any) error {
		return fmt.Errorf("open adapter %s: it is not for the base model %s: %s", a.Dir, base, fmt.Sprintf(format, args...))
	}
	shapes := map[string][]int{}
	for _, t := range f.Tensors {
		shapes[t.Name] = t.Shape
	}
	want := c.AdapterTensors(a.LoRA)
	for _, t := range want {
		shape, ok := shapes[t.Name]
		switch {
		case !ok:
			return nil, other("it has no tensor %s", t.Name)
		case !slices.Equal(shape, t.Shape):
			return nil, other("the shape of %s is %v, the base needs %v", t.Name, shape, t.Shape)
		}
		delete(shapes, t.Name)
	}
	for _, t := range f.Tensors {
		if _, left := shapes[t.Name]; left {
			return nil, other("the base has no place for tensor %s", textutil.Quote(t.Name))
		}
	}
	var out []safetensors.Tensor
	for _, t := range want {
		x := safetensors.Tensor{Name: t.Name, Shape: t.Shape, Data: make([]float32, t.Shape[0]*t.Shape[1])}
		if err := cmp.Or(f.Into(t.Name, x.Data), finite(x.Data)); err != nil {
			return nil, fmt.Errorf("open adapter %s: tensor %s: %w", a.Dir, t.Name, err)
		}
		out = append(out, x)
	}
	return out, nil
}

// AdapterFolder returns the files of a PEFT folder besides the weights, whose tensors are those
// of [Config.AdapterTensors]. base is the path of the base model, or its name on the Hub, which may have a revision.
func AdapterFolder(base, revision string, l LoRA) (Folder, error) {
	settings := map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "inference_mode": true,
		"base_model_name_or_path": base, "revision": nil, "r": l.Rank,
		"lora_alpha": l.Alpha, "use_rslora": l.UseRSLoRA, "target_modules": l.Targets,
		"lora_dropout": 0, "bias": "none", "fan_in_fan_out": false, "init_lora_weights": true, "use_dora": false,
		"modules_to_save": nil, "rank_pattern": map[string]int{}, "alpha_pattern": map[string]float64{},
	}
	if revision != "" {
		settings["revision"] = revision
	}
	config, err := toJSON(settings)
	return Folder{AdapterConfigFile: config}, err
}
