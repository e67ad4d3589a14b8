package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// target is one fuzz function.
type target struct{ pkg, name string }

func (t target) String() string { return t.pkg + " " + t.name }

// findTargets lists the fuzz functions of all packages below the working
// directory, in the order of packages and files. It parses the sources, which is
// faster than compiling every test.
func findTargets(ctx context.Context, only *regexp.Regexp) ([]target, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles", "./...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("list packages: %w", err)
	}
	var targets []target
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return targets, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		for _, name := range append(p.TestGoFiles, p.XTestGoFiles...) {
			names, err := fuzzFuncs(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			for _, n := range names {
				if t := (target{p.ImportPath, n}); only.MatchString(t.String()) {
					targets = append(targets, t)
				}
			}
		}
	}
}

// fuzzFuncs returns the names of the fuzz functions of a file.
func fuzzFuncs(path string) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("find fuzz targets: %w", err)
	}
	var names []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") && len(fn.Type.Params.List) == 1 {
			names = append(names, fn.Name.Name)
		}
	}
	return names, nil
}
