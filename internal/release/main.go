// Command release builds the program for each platform and packs it with the README, the documentation,
// the licenses of all that is in it, man pages and shell completions:
//
//	go run ./internal/release -out dist [-version v1.2.0] [-platforms linux/amd64,windows/arm64]
//
// It runs in the root of the sources. The same sources, version and release of Go give the same
// bytes, in any folder and on any machine: paths, times, owners and the order of files in the
// archives do not depend on where they are made. SHA256SUMS is written last.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"grpo/pkg/rundir"
)

// platforms are those of a release.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func main() {
	out := flag.String("out", "dist", "folder for the archives and SHA256SUMS")
	version := flag.String("version", "", "version of the release; without it, what git describe says")
	list := flag.String("platforms", strings.Join(platforms, ","), "platforms to build for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := release(ctx, *out, *version, strings.Split(*list, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// origin is what the sources say about themselves.
type origin struct {
	version, revision string
	date              time.Time
}

func release(ctx context.Context, out, version string, names []string) error {
	for _, p := range names {
		if !slices.Contains(platforms, p) {
			return fmt.Errorf("-platforms: %q is not one of %s", p, strings.Join(platforms, ", "))
		}
	}
	from, err := describe(ctx, version)
	if err != nil {
		return err
	}
	common, err := commonFiles(ctx, from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	sums := ""
	for _, p := range names {
		name, data, err := archive(ctx, from, p, common)
		if err != nil {
			return err
		}
		if err := rundir.WriteFileAtomic(filepath.Join(out, name), data); err != nil {
			return err
		}
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(data), name)
		fmt.Printf("%s  %.1f MB\n", filepath.Join(out, name), float64(len(data))/1e6)
	}
	return rundir.WriteFileAtomic(filepath.Join(out, "SHA256SUMS"), []byte(sums))
}

var validVersion = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]*$`)

// describe asks git, and the environment for what git does not know. A source archive has no
// history: there the version and SOURCE_DATE_EPOCH must be given.
func describe(ctx context.Context, version string) (o origin, err error) {
	if o.version = version; version == "" {
		if o.version, err = run(ctx, nil, "git", "describe", "--tags", "--always", "--dirty"); err != nil {
			return o, fmt.Errorf("find the version: %w (give one: make release VERSION=v1.2.0)", err)
		}
	}
	if !validVersion.MatchString(o.version) {
		return o, fmt.Errorf("the version %q can't be part of a file's name: use letters, digits and . + _ -", o.version)
	}
	o.revision, err = run(ctx, nil, "git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude", "*")
	if err != nil {
		o.revision = "unknown"
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if seconds, err = run(ctx, nil, "git", "log", "-1", "--format=%ct"); err != nil {
			return o, fmt.Errorf("find the date of the sources: %w (give it in seconds: SOURCE_DATE_EPOCH=1767225600)", err)
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	// A zip archive has no earlier date.
	if o.date = time.Unix(n, 0).UTC(); err != nil || o.date.Year() < 1980 || o.date.Year() > 2107 {
		return o, fmt.Errorf("SOURCE_DATE_EPOCH=%s: want seconds since 1970, for a date from 1980 to 2107", seconds)
	}
	return o, nil
}

// archive builds and packs the program for one platform.
func archive(ctx context.Context, from origin, platform string, common []file) (name string, data []byte, err error) {
	system, arch, _ := strings.Cut(platform, "/")
	program, pack, ending := "grpo", packTar, ".tar.gz"
	if system == "windows" {
		program, pack, ending = "grpo.exe", packZip, ".zip"
	}
	dir, err := os.MkdirTemp("", "grpo-release-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	built := filepath.Join(dir, program)
	// The Go command would record the state of the checkout, which differs between a clone with
	// and one without tags.
	_, err = run(ctx, []string{
		"GOOS=" + system, "GOARCH=" + arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=",
	}, "go", "build", "-trimpath", "-buildvcs=false", "-o", built,
		"-ldflags=-s -w -X grpo/cmd.version="+from.version+" -X grpo/cmd.revision="+from.revision, ".")
	if err != nil {
		return "", nil, fmt.Errorf("build for %s: %w", platform, err)
	}
	binary, err := os.ReadFile(built)
	if err != nil {
		return "", nil, err
	}
	folder := strings.Join([]string{"grpo", from.version, system, arch}, "-")
	data, err = pack(folder, append([]file{{program, 0o755, binary}}, common...), from.date)
	return folder + ending, data, err
}

// run returns the output of a program, without the line's end.
func run(ctx context.Context, env []string, program string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%s %s: %w: %s", program, args[0], err, strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
