package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"grpo/pkg/config"
)

// launcherKeys are the keys of the section launcher with flags of their own, for sweep,
// ablate and assignment. Those that the local launcher ignores need another --launcher.
var launcherKeys = []keyFlag{
	{"launcher", "launcher.type", "TYPE", "where runs are trained: local, slurm or kubernetes"},
	{"cpus", "launcher.cpus", "int", "cluster: cores of one run"},
	{"memory", "launcher.memory", "AMOUNT", "cluster: memory of one run, such as 4G"},
	{"time", "launcher.time", "TIME", "cluster: time limit of one run, such as 2:30:00"},
	{"parallelism", "launcher.parallelism", "int", "cluster: maximum number of runs at a time"},
	{"partition", "launcher.partition", "NAME", "Slurm: partition"},
	{"account", "launcher.account", "NAME", "Slurm: account to charge"},
	{"qos", "launcher.qos", "NAME", "Slurm: quality of service"},
	{"gres", "launcher.gres", "LIST", "Slurm: generic resources of one run, such as gpu:1"},
	{"exclude", "launcher.exclude", "NODES", "Slurm: nodes to avoid"},
	{"image", "launcher.kubernetes.image", "IMAGE", "Kubernetes: container image with grpo"},
	{"claim", "launcher.kubernetes.claim", "NAME", "Kubernetes: ReadWriteMany volume claim for the runs"},
	{"namespace", "launcher.kubernetes.namespace", "NAME", "Kubernetes: namespace"},
}

// launcherLines are the keys that are lists of lines, with repeatable flags. Help takes
// the name of a value from the backquotes.
var launcherLines = []keyFlag{
	{"setup", "launcher.setup", "", "Slurm: shell `LINE` before the program (repeatable)"},
	{"directive", "launcher.directives", "", "Slurm: `OPTION` of sbatch, such as --constraint=avx512 (repeatable)"},
}

// launcherFlags are the flags of sweep, ablate and assignment about where runs are trained.
type launcherFlags struct {
	cluster  string // the first flag that needs a cluster; empty if none was given
	wait     bool
	manifest string // file for Kubernetes; empty = standard output
}

func (f *launcherFlags) add(c *cobra.Command) {
	addKeyFlags(c, launcherKeys)
	for _, k := range launcherLines {
		c.Flags().StringArray(k.flag, nil, k.usage+" ("+k.key+")")
	}
	c.Flags().BoolVar(&f.wait, "wait", false, "Slurm: stay, show progress, and report at the end")
	c.Flags().StringVar(&f.manifest, "manifest", "", "Kubernetes: write the manifest to this `FILE` (default standard output)")
	complete(c, "launcher", config.LauncherTypes, cobra.ShellCompDirectiveNoFileComp)
}

// options returns the flags that set keys.
func (f *launcherFlags) options(c *cobra.Command) (out []config.Flag) {
	out = givenKeys(c, launcherKeys)
	for _, k := range launcherLines {
		// An error would mean a flag of another type.
		if lines, err := c.Flags().GetStringArray(k.flag); err == nil && len(lines) > 0 {
			out = append(out, config.Flag{Key: k.key, Name: "--" + k.flag, Lines: lines})
		}
	}
	for _, o := range out {
		if f.cluster == "" && o.Key != "launcher.type" {
			f.cluster = o.Name
		}
	}
	if f.cluster == "" && f.wait {
		f.cluster = "--wait"
	}
	if f.cluster == "" && f.manifest != "" {
		f.cluster = "--manifest"
	}
	return out
}

// check refuses flags that the launcher ignores. The same settings in a file are no error,
// because a file may be shared.
func (f *launcherFlags) check(l config.Launcher, jobs int) error {
	switch {
	case l.Type == "local" && f.cluster != "":
		return fmt.Errorf("%w: %s has no effect on this machine (add --launcher slurm or kubernetes, or leave it out)",
			config.ErrConfig, f.cluster)
	case l.Type != "local" && jobs > 0:
		return fmt.Errorf("%w: --jobs is for this machine (--parallelism limits the runs at a time on a cluster)",
			config.ErrConfig)
	case l.Type == "kubernetes" && f.wait:
		return fmt.Errorf("%w: --wait is for --launcher slurm", config.ErrConfig)
	case l.Type != "kubernetes" && f.manifest != "":
		return fmt.Errorf("%w: --manifest is for --launcher kubernetes", config.ErrConfig)
	}
	return nil
}
