package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"grpo/internal/hubcache"
	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/hf"
	"grpo/pkg/rundir"
)

// source is where the parameters of a Llama or Qwen policy come from.
type source struct {
	base    string       // a Hugging Face folder or a GGUF file
	hub     string       // the name that base was found by in the Hugging Face cache; empty for a path
	weights string       // the file of a run that trained all weights; empty: those of base
	lora    *config.LoRA // of adapters that exist; nil without
	adapter string       // their PEFT folder, or the file of the run that trained them
}

// maxSources bounds the runs that were started from one another, and ends a circle.
const maxSources = 100

// sourceOf follows model.init to a checkpoint: it is one, it is a PEFT folder, which names
// its base, or a file of a run or of `grpo sft`, whose configuration says what it started from. It is nil
// for a TinyLM.
func sourceOf(init, adapterBase string) (*source, error) { return follow(init, adapterBase, 0) }

func follow(init, adapterBase string, depth int) (*source, error) {
	if depth == maxSources {
		return nil, fmt.Errorf("open model %s: more than %d runs were started from one another, or from themselves",
			init, maxSources)
	}
	name := init
	init, err := local(name)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(init)
	switch {
	case init == "base" || init == "random":
		return nil, nil
	case hf.IsAdapter(init): // first: trainers put the tokenizer beside adapters
		return followAdapter(init, adapterBase, depth)
	case decoder.IsCheckpoint(init):
		s := &source{base: init}
		if name != init {
			s.hub = name
		}
		return s, nil
	case filepath.Base(init) == rundir.ModelFile:
	case filepath.Base(dir) == rundir.CheckpointDir:
		// The best weights of a run that trained all are a folder with the network's shape and
		// tokenizer.
		best := filepath.Join(dir, rundir.BestFolder)
		if regular.Folder(best) == nil && decoder.IsCheckpoint(best) {
			return &source{base: best, weights: init}, nil
		}
		dir = filepath.Dir(dir)
	default:
		return nil, nil
	}
	file := filepath.Join(dir, rundir.ConfigFile)
	own, ok := startOf(file)
	if !ok {
		return nil, nil
	}
	lora := own.Train.LoRA
	if lora.Rank == 0 {
		lora = own.LoRA
	}
	if lora.Rank > 0 && adapterBase != "" {
		return onBase(init, adapterBase, lora, depth)
	}
	s, err := follow(own.Model.Init, own.Model.AdapterBase, depth+1)
	switch {
	case s == nil || err != nil:
		return nil, err
	case lora.Rank > 0:
		s.lora, s.adapter = &lora, init
	case s.lora != nil:
		return nil, fmt.Errorf("open model %s: %s trains all weights from adapters, which no run does", init, file)
	default:
		s.weights = init
	}
	return s, nil
}

// start is what a configuration says of the weights that training started from.
type start struct {
	Model struct {
		Init        string
		AdapterBase string `yaml:"adapter_base"`
	}
	Train struct {
		LoRA config.LoRA `yaml:"lora"`
	}
	LoRA config.LoRA `yaml:"lora"` // of grpo sft
}

// startOf reads the configuration of a run or of grpo sft. It is not ok if there is none.
func startOf(file string) (s start, ok bool) {
	data, err := regular.Read(file, regular.MaxDocument)
	return s, err == nil && yaml.Unmarshal(data, &s) == nil && s.Model.Init != ""
}

// lostStart is an error if a file of weights belongs to a run or to grpo sft that started from a
// file or folder that is not there: the file has neither the network's shape nor its tokenizer.
func lostStart(weights string) error {
	for range maxSources {
		dir := filepath.Dir(weights)
		if filepath.Base(dir) == rundir.CheckpointDir {
			dir = filepath.Dir(dir)
		}
		file := filepath.Join(dir, rundir.ConfigFile)
		own, ok := startOf(file)
		if init := own.Model.Init; !ok || init == "base" || init == "random" || InCache(init) {
			return nil
		}
		if _, err := os.Stat(own.Model.Init); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s was trained from %s (%s), and there is no such file or folder: use it in the working "+
				"directory in which it was trained, or \"grpo export\" it there", weights, own.Model.Init, file)
		}
		weights = own.Model.Init
	}
	return nil
}

// adapterFolder is the PEFT folder of adapters of this source. Like PEFT it names a base on the Hub by its name there.
func (s *source) adapterFolder(base string, lora config.LoRA) (hf.Folder, error) {
	var revision string
	if n, ok := hubcache.Parse(s.hub); ok && s.weights == "" {
		revision, n.Revision = n.Revision, ""
		base = n.String()
	}
	return hf.AdapterFolder(base, revision, hf.LoRA(lora))
}

// followAdapter follows a PEFT folder to its base.
func followAdapter(dir, base string, depth int) (*source, error) {
	a, err := hf.ReadAdapter(dir)
	if err == nil && base == "" {
		base, err = a.BaseModel()
	}
	if err != nil {
		return nil, err
	}
	return onBase(dir, base, config.LoRA(a.LoRA), depth)
}

// onBase follows the base of adapters, which are in a PEFT folder or in the file of a run.
func onBase(adapter, base string, lora config.LoRA, depth int) (*source, error) {
	s, err := follow(base, "", depth+1)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, fmt.Errorf("open adapter %s: its base model %s is not a Hugging Face folder (with config.json and "+
			"tokenizer.json) or a GGUF file (name another with --set model.adapter_base=PATH)", adapter, base)
	case s.lora != nil:
		return nil, fmt.Errorf("open adapter %s: its base model %s has adapters itself: merge them first", adapter, base)
	}
	s.lora, s.adapter = &lora, adapter
	return s, nil
}

// open opens a policy; errors name what it is. It has adapters if the source has, or new ones if lora has a rank.
func (s *source) open(what string, bf16 bool, lora config.LoRA, seed uint64, on model.Device) (model.Policy, error) {
	var weights *model.Params
	if s.weights != "" {
		var err error
		if weights, err = runWeights(s.weights, what); err != nil {
			return nil, err
		}
	}
	if s.lora != nil {
		lora = *s.lora
	}
	var p *decoder.Policy
	var err error
	if lora.Rank == 0 {
		p, err = decoder.Open(s.base, bf16, on)
	} else {
		p, err = decoder.OpenLoRA(s.base, bf16, on, hf.LoRA(lora), seed, weights)
		if weights = nil; err == nil && s.adapter != "" {
			size := p.Size().(decoder.Size)
			weights, err = s.adapters(&size.Config)
		}
	}
	if err == nil && weights != nil {
		err = replace(p, weights, what)
	}
	if err != nil {
		return nil, config.Invalid(err)
	}
	return p, nil
}

// adapters reads the adapters of a PEFT folder or of a run's file; c is their base.
func (s *source) adapters(c *hf.Config) (*model.Params, error) {
	if !hf.IsAdapter(s.adapter) {
		return runWeights(s.adapter, "the adapters")
	}
	a, err := hf.ReadAdapter(s.adapter)
	if err != nil {
		return nil, err
	}
	tensors, err := a.Read(c, s.base)
	if err != nil {
		return nil, err
	}
	form := make([]model.Tensor, len(tensors))
	for i, t := range tensors {
		form[i] = model.Tensor{Name: t.Name, Shape: t.Shape}
	}
	p := model.NewParams(form)
	for i, t := range p.Tensors() {
		copy(t.Data, tensors[i].Data)
	}
	return p, nil
}

// runWeights reads the weights in a run's file.
func runWeights(path, what string) (*model.Params, error) {
	weights, err := model.ReadWeightsFile(path)
	if err == nil {
		err = weights.CheckFinite()
	}
	if err != nil {
		return nil, loadError(what, err)
	}
	return weights, nil
}

// replace sets the parameters of a policy.
func replace(p model.Policy, weights *model.Params, what string) error {
	if err := p.Params().Match(weights); err != nil {
		return loadError(what, err)
	}
	return p.Params().Set(weights)
}

// Files are the files of the model that model.init can name, with those that it was trained from; none for the
// embedded or a random model, or if the model can't be found, which opening it reports.
func Files(init, adapterBase string) (out []string) {
	s, err := sourceOf(init, adapterBase)
	if err != nil || init == "base" || init == "random" || init == "" {
		return nil
	}
	paths := []string{init}
	if s != nil {
		paths = []string{s.base, s.weights, s.adapter}
	}
	for _, path := range paths {
		out = append(out, filesIn(path)...)
	}
	return out
}

// filesIn are the files of a model's folder that matter; of a file, itself.
func filesIn(path string) (out []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return []string{path}
	}
	for _, e := range entries {
		if hf.Matters(e.Name()) {
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	return out
}
