package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/hubcache"
	"grpo/internal/process"
	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/hub"
	"grpo/pkg/rundir"
)

func newPull(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "pull",
		Short: "Download a model of the Hugging Face Hub, or a data set",
		Long: `Pull downloads over HTTPS. It continues partial downloads, repeats failed requests, and
checks the hash of every file before the file gets its name. It prints the commands to
type next.`,
		Example: `  grpo pull data gsm8k
  grpo pull model HuggingFaceTB/SmolLM2-135M-Instruct`,
	}
	c.AddCommand(newPullData(s), newPullModel(s))
	return c
}

// pullFlags are the flags of both commands.
type pullFlags struct {
	mirror      string
	json, quiet bool
}

func (f *pullFlags) add(c *cobra.Command, instead string) {
	c.Flags().StringVar(&f.mirror, "mirror", "", "`URL` of a server with the same paths, instead of "+instead)
	addJSON(c, &f.json)
	addQuiet(c.Flags(), &f.quiet)
}

// getenv reads a variable of the command's environment, without space around it.
func (s *State) getenv(name string) string { return strings.TrimSpace(process.Getenv(s.Env, name)) }

// client returns the client for the first address that is not empty; from says where it is from.
func (f *pullFlags) client(c *cobra.Command, s *State, from, address string) (*hub.Client, func(), error) {
	if f.mirror != "" {
		from, address = "--mirror", f.mirror
	}
	endpoint, err := hub.CheckEndpoint(address)
	if err != nil {
		return nil, nil, usagef(c, "%s: %w", from, err) // the address may contain a password
	}
	if offline := s.getenv("HF_HUB_OFFLINE"); offline != "" && offline != "0" {
		return nil, nil, usagef(c, "HF_HUB_OFFLINE is set, which forbids downloads (unset it)")
	}
	p := &pullProgress{progress: newProgress(s, f.quiet)}
	return &hub.Client{Endpoint: endpoint, Note: p.Note, Progress: p.show}, p.done, nil
}

// interrupted explains the end of a download by a signal.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: the same command continues", rundir.ErrInterrupted)
	}
	return err
}

// pullProgress shows the download of files: a bar on a terminal, otherwise a line for each file and
// each tenth of a large one.
type pullProgress struct {
	*progress
	file  string
	tenth int64
}

// largeFile is the size in bytes from which lines report a part of a file.
const largeFile = 64 << 20

func (p *pullProgress) show(file string, done, size int64) {
	if p.redraw {
		text := budget.Bytes(float64(done))
		if size >= 0 {
			text += " of " + budget.Bytes(float64(size))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.draw(done, size, textutil.Printable(file, 40)+"  "+text)
		return
	}
	switch {
	case size >= 0 && done == size:
		p.line("%s: %s", file, budget.Bytes(float64(size)))
	case size >= largeFile && (p.file != file || done*10/size > p.tenth):
		p.file, p.tenth = file, done*10/size
		p.line("%s: %s of %s", file, budget.Bytes(float64(done)), budget.Bytes(float64(size)))
	}
}

// commandLines are commands to type, one a line.
func commandLines(commands ...[]string) (out []string) {
	for _, argv := range commands {
		out = append(out, textutil.CommandLine(argv))
	}
	return out
}

// writePulled prints the files as a table between two texts, and the commands to type next.
func writePulled(s *State, head string, files []hub.File, foot string, next []string) error {
	w := newTable(s.Out)
	textutil.Fprintf(w, "%s\n", head)
	for _, f := range files {
		state := "downloaded"
		if f.Present {
			state = "present"
		}
		textutil.Fprintf(w, "%s\t%s\t%s\t%s\n", filepath.ToSlash(f.Name), budget.Bytes(float64(f.Bytes)), f.Sum, state)
	}
	textutil.Fprintf(w, "%s\nnext:\n", textutil.Lines(foot))
	for _, line := range next {
		textutil.Fprintf(w, "  %s\n", line)
	}
	return w.Flush()
}

// pullDataOptions are the inputs of `grpo pull data`.
type pullDataOptions struct {
	set    hub.DataSet
	out    string
	flags  pullFlags
	client *hub.Client
	done   func()
}

func newPullData(s *State) *cobra.Command {
	o := &pullDataOptions{}
	var names []string
	for _, d := range hub.DataSets() {
		names = append(names, d.Name)
	}
	c := &cobra.Command{
		Use:   "data gsm8k|svamp",
		Short: "Download a public set of problems",
		Long: `Data downloads the files of a set of problems from GitHub. Their hashes are part of this
program, so a mirror can't change them. Files that are there are checked and kept.`,
		Example: `  grpo pull data gsm8k
  grpo pull data svamp --out problems/svamp
  grpo pull data gsm8k --mirror https://mirror.example.org --json`,
		Annotations: saves,
		Args:        takes("the name of one data set: "+strings.Join(names, " or "), 1, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.set, err = hub.FindDataSet(args[0]); err != nil {
				return usagef(cmd, "%w", err)
			}
			o.out = cmp.Or(o.out, o.set.Name)
			if o.client, o.done, err = o.flags.client(cmd, s, "address", hub.GitHub); err != nil {
				return err
			}
			return run(cmd, s, o, pullData)
		},
		ValidArgs: names,
	}
	c.Flags().StringVar(&o.out, "out", "", "`folder` for the files (default: the data set's name)")
	o.flags.add(c, hub.GitHub)
	return c
}

// pulledData is what --json prints.
type pulledData struct {
	Name  string     `json:"name"`
	From  string     `json:"from"`
	Files []hub.File `json:"files"`
	Next  []string   `json:"next"` // commands to type
}

func pullData(ctx context.Context, s *State, o *pullDataOptions) error {
	var bytes float64
	for _, f := range o.set.Files {
		bytes += float64(f.Bytes)
	}
	if err := s.checkDisk(o.out, bytes); err != nil {
		return err
	}
	files, err := o.client.PullData(ctx, o.set, o.out)
	o.done()
	if err != nil {
		return interrupted(ctx, err)
	}
	in := func(i int) string { return filepath.ToSlash(files[i].Name) }
	next := commandLines([]string{"grpo", "data", "stats", in(len(files) - 1)})
	if o.set.Name == "svamp" {
		next = append(next, commandLines([]string{"grpo", "train",
			"--set", "eval.sets=validation,svamp", "--set", "eval.svamp_file=" + in(0)})...)
	} else {
		for _, command := range []string{"eval", "train"} {
			next = append(next, commandLines([]string{"grpo", command, "--set", "data.source=gsm8k",
				"--set", "data.train_file=" + in(0), "--set", "data.val_file=" + in(1)})...)
		}
	}
	if o.flags.json {
		return printJSON(s.Out, pulledData{o.set.Name, o.set.Page, files, next})
	}
	return writePulled(s, fmt.Sprintf("%s, from %s", o.set.About, o.set.Page), files, "", next)
}

// pullModelOptions are the inputs of `grpo pull model`.
type pullModelOptions struct {
	request        hub.ModelRequest
	revision, gguf string
	flags          pullFlags
	client         *hub.Client
	done           func()
}

func newPullModel(s *State) *cobra.Command {
	o := &pullModelOptions{}
	c := &cobra.Command{
		Use:   "model OWNER/NAME",
		Short: "Download a model of the Hugging Face Hub into its cache",
		Long: `Model downloads the configuration, the tokenizer and the safetensors files of a model,
or with --gguf one GGUF file, into the cache that transformers uses too (HF_HUB_CACHE,
or hub in HF_HOME, by default ~/.cache/huggingface). "--model OWNER/NAME" of other
commands finds models there without a network, whichever program downloaded them.

HF_ENDPOINT is the address of another hub. HF_TOKEN is for private and gated models; it
is sent to that address only.`,
		Example: `  grpo pull model HuggingFaceTB/SmolLM2-135M-Instruct
  grpo pull model Qwen/Qwen2.5-0.5B-Instruct --revision main --json
  grpo pull model Qwen/Qwen2.5-0.5B-Instruct-GGUF --gguf qwen2.5-0.5b-instruct-q8_0.gguf`,
		Annotations: saves,
		Args:        takes("the name of one model, OWNER/NAME", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, ok := hubcache.Parse(args[0])
			given := n
			if o.revision != "" && n.Revision == "" {
				n.Revision = o.revision
			}
			n.File = cmp.Or(o.gguf, n.File)
			again, valid := hubcache.Parse(n.String())
			switch {
			case !ok:
				return usagef(cmd, "%s is not the name of a model: give OWNER/NAME, as in its address on the Hub",
					textutil.Quote(args[0]))
			case !valid || again != n:
				return usagef(cmd, "--revision %s, --gguf %s: give a branch, a tag or a commit without slashes, "+
					"and the name of a GGUF file of the model",
					textutil.Quote(o.revision), textutil.Quote(o.gguf))
			case o.revision != "" && given.Revision != "" && o.revision != given.Revision:
				return usagef(cmd, "%s and --revision %s differ", textutil.Quote(args[0]), textutil.Quote(o.revision))
			}
			cache, err := hubcache.Dir(s.getenv)
			if err != nil {
				return err
			}
			o.request = hub.ModelRequest{Name: n, Cache: cache,
				Room: func(dir string, bytes int64) error { return s.checkDisk(dir, float64(bytes)) }}
			address := cmp.Or(s.getenv("HF_ENDPOINT"), hub.Hub)
			if o.client, o.done, err = o.flags.client(cmd, s, "HF_ENDPOINT", address); err != nil {
				return err
			}
			o.client.Token = s.getenv("HF_TOKEN")
			return run(cmd, s, o, pullModel)
		},
	}
	c.Flags().StringVar(&o.revision, "revision", "", "`branch`, tag or commit (default main)")
	c.Flags().StringVar(&o.gguf, "gguf", "", "download only this GGUF `file` of the model")
	o.flags.add(c, "HF_ENDPOINT or "+hub.Hub)
	return c
}

// pulledModel is what --json prints.
type pulledModel struct {
	hub.Model
	Next []string `json:"next"` // commands to type
}

func pullModel(ctx context.Context, s *State, o *pullModelOptions) error {
	m, err := o.client.PullModel(ctx, o.request)
	o.done()
	if err != nil {
		return interrupted(ctx, err)
	}
	next := commandLines([]string{"grpo", "generate", "--model", m.Name, "--prompt", "What is the capital of France?"},
		[]string{"grpo", "train", "-c", "smollm2", "--model", m.Name})
	if o.flags.json {
		return printJSON(s.Out, pulledModel{*m, next})
	}
	return writePulled(s, fmt.Sprintf("%s, commit %s", m.Name, m.Commit), m.Files,
		"in "+textutil.Printable(m.Path, 0)+"\n", next)
}
