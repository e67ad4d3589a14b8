// Package archtest has the rules of the project that no compiler checks, as tests that read its
// sources.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// source is a parsed file; name is its path from the root, with slashes.
type source struct {
	name string
	file *ast.File
	set  *token.FileSet
}

// sources parses every Go file of the module, tests too.
func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	expect.OK(t, expect.Err(os.Stat(filepath.Join(root, "go.mod"))))
	var out []source
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (e.Name() == "testdata" || e.Name() == "results" || strings.HasPrefix(e.Name(), ".") && len(e.Name()) > 2) {
			return filepath.SkipDir
		}
		if e.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		out = append(out, source{filepath.ToSlash(rel), f, set})
		return err
	})
	expect.OK(t, err)
	if len(out) < 100 {
		t.Fatalf("only %d files were found", len(out))
	}
	return out
}

// imports reports whether a file imports one of these packages.
func (s source) imports(paths ...string) bool {
	return slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool {
		p, err := strconv.Unquote(i.Path.Value)
		return err == nil && slices.Contains(paths, p)
	})
}

// calls visits the calls pkg.name(...) of a file.
func (s source) calls(visit func(pkg, name string, call *ast.CallExpr)) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok {
				if pkg, ok := f.X.(*ast.Ident); ok {
					visit(pkg.Name, f.Sel.Name, call)
				}
			}
		}
		return true
	})
}

// fault describes a broken rule: where, how, and the fix.
func (s source) fault(n ast.Node, text string) string {
	return fmt.Sprintf("%s:%d: %s", s.name, s.set.Position(n.Pos()).Line, text)
}

// own reports whether a file is part of the program and below one of these folders.
func (s source) own(folders ...string) bool {
	return !strings.HasSuffix(s.name, "_test.go") && s.file.Name.Name != "main" &&
		slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(s.name, f+"/") })
}

// rules are checked for every file; each returns the faults of one file.
var rules = map[string]func(source) []string{
	"no shell": noShell, "no patterns": noPatterns, "packages keep to themselves": ownProcess, "text is made printable": printed,
	"regular files": regularFiles, "networks are opened in one place": namesNoNetwork,
}

func TestRules(t *testing.T) {
	for _, s := range sources(t) {
		for _, rule := range slices.Sorted(maps.Keys(rules)) {
			for _, fault := range rules[rule](s) {
				t.Errorf("%s: %s", rule, fault)
			}
		}
	}
}

// interpreters execute a string.
var interpreters = []string{"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "xargs", "eval", "cmd", "cmd.exe", "powershell", "powershell.exe", "pwsh"}

// shellOf returns the name of the shell that a string is, or starts with like a command line.
func shellOf(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if base := path.Base(strings.ReplaceAll(word, `\`, "/")); slices.Contains(interpreters, base) {
		return base
	}
	return ""
}

// noShell: no program is started through a shell, which could execute parts of a run's name or of a
// file. Programs are started with a list of arguments, and files that start programs contain no
// shell's name.
func noShell(s source) (faults []string) {
	// That file gives shells the completions that were written for them.
	if s.imports("os/exec") && s.name != "cmd/man_test.go" {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && shellOf(text) != "" {
					faults = append(faults, s.fault(lit, fmt.Sprintf("a file that starts programs names the shell %q (start the program itself, with a list of arguments)", shellOf(text))))
				}
			}
			return true
		})
	}
	s.calls(func(pkg, name string, call *ast.CallExpr) {
		starts := pkg == "exec" && strings.HasPrefix(name, "Command") || pkg == "os" && name == "StartProcess" ||
			(pkg == "syscall" || pkg == "unix") && (name == "Exec" || name == "ForkExec" || name == "StartProcess")
		if !starts {
			return
		}
		first := 0
		if name == "CommandContext" {
			first = 1
		}
		if _, sum := call.Args[first].(*ast.BinaryExpr); sum {
			faults = append(faults, s.fault(call, "the program's name is put together from parts: a command line in the making"))
		}
	})
	return faults
}

// noPatterns: users choose folder names, and as a pattern the name runs[1] matches another folder,
// runs1. So files are found by reading folders, never by patterns.
func noPatterns(s source) (faults []string) {
	if !s.own("pkg", "cmd") {
		return nil
	}
	s.calls(func(pkg, name string, call *ast.CallExpr) {
		if (pkg == "filepath" || pkg == "path" || pkg == "fs") && (name == "Glob" || name == "Match") {
			faults = append(faults, s.fault(call, fmt.Sprintf("%s.%s takes a folder's name for a pattern (read the folder)", pkg, name)))
		}
	})
	return faults
}

// ownProcess: packages below pkg/ do not touch the process: no standard streams, exit, clock or
// global random source.
func ownProcess(s source) (faults []string) {
	if !s.own("pkg") {
		return nil
	}
	calls := map[string][]string{
		"os": {"Exit"}, "log": {"Fatal", "Fatalf", "Print", "Printf", "Println"}, "fmt": {"Print", "Printf", "Println"},
		"time": {"Now", "Since", "Until"}, "rand": {"Int", "IntN", "Intn", "Float64", "Perm", "Shuffle", "Uint64", "Seed"},
	}
	s.calls(func(pkg, name string, call *ast.CallExpr) {
		if slices.Contains(calls[pkg], name) {
			faults = append(faults, s.fault(call, fmt.Sprintf("%s.%s in a package (let the command pass it in)", pkg, name)))
		}
	})
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "os" && slices.Contains([]string{"Stdout", "Stderr", "Stdin", "Args"}, sel.Sel.Name) {
				faults = append(faults, s.fault(sel, fmt.Sprintf("os.%s in a package (let the command pass it in)", sel.Sel.Name)))
			}
		}
		return true
	})
	return faults
}

// printed: output may contain strings from files, paths or arguments, so commands print through
// textutil.Fprintf, which makes them printable. Only the redrawn table writes control characters.
func printed(s source) (faults []string) {
	if !s.own("cmd") || s.name == "cmd/sweeptable_draw.go" {
		return nil
	}
	s.calls(func(pkg, name string, call *ast.CallExpr) {
		if pkg != "fmt" || !strings.HasPrefix(name, "Fprint") {
			return
		}
		constant := name == "Fprintln" && !slices.ContainsFunc(call.Args[1:], func(a ast.Expr) bool {
			_, literal := a.(*ast.BasicLit)
			return !literal
		})
		if !constant {
			faults = append(faults, s.fault(call, fmt.Sprintf("fmt.%s prints text as it is (print with textutil.Fprintf)", name)))
		}
	})
	return faults
}

// regularFiles: a run folder may come from anyone, so its files are opened by package regular,
// which follows no links and opens no pipes. A new file (O_EXCL) is safe.
func regularFiles(s source) (faults []string) {
	others := []string{"pkg/rundir/atomic.go", "pkg/model/cuda/cache.go"} // a folder; the user's cache
	if !s.own("pkg", "cmd") || slices.Contains(others, s.name) {
		return nil
	}
	s.calls(func(pkg, name string, call *ast.CallExpr) {
		opens := slices.Contains([]string{"Open", "ReadFile", "Create", "WriteFile", "Truncate"}, name) || name == "OpenFile" && !exclusive(call)
		if pkg == "os" && opens {
			faults = append(faults, s.fault(call, fmt.Sprintf("os.%s follows links and waits for pipes (use internal/regular)", name)))
		}
	})
	return faults
}

// namesNoNetwork: pkg/policy is the only package of the program beside the networks that names one. pkg/hub checks
// the files of a Hugging Face repository.
func namesNoNetwork(s source) (faults []string) {
	if !s.own("pkg", "cmd") || s.own("pkg/model", "pkg/policy", "pkg/hub") {
		return nil
	}
	for _, i := range s.file.Imports {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), "grpo/pkg/model/"), "/")
		if slices.Contains([]string{"tinylm", "decoder", "hf", "cuda"}, name) {
			faults = append(faults, s.fault(i, fmt.Sprintf("a network's package, %s, is named (ask pkg/policy)", name)))
		}
	}
	return faults
}

// exclusive reports whether os.O_EXCL is among the arguments of a call.
func exclusive(call *ast.CallExpr) (found bool) {
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			x, ok := n.(*ast.SelectorExpr)
			found = found || ok && x.Sel.Name == "O_EXCL"
			return true
		})
	}
	return found
}

// TestRulesFind: each rule finds the faults it is for.
func TestRulesFind(t *testing.T) {
	const text = `package zz

import ("fmt"; "os"; "os/exec"; "path/filepath"; "time"; "grpo/pkg/model/decoder"; "grpo/pkg/model/safetensors")

func X(name string) {
	exec.Command("sh", "-c", "echo "+name)
	exec.CommandContext(nil, "/bin/bash")
	exec.Command(name + " x")
	exec.Command("go", "run", "-c", name)
	filepath.Glob(name)
	time.Now()
	fmt.Fprintln(os.Stdout)
	os.Exit(1)
	fmt.Fprintf(w, "%s", name)
	fmt.Fprintln(w, name)
	os.ReadFile(name)
	os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0)
	os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0)
}
`
	for _, c := range []struct {
		rule, file string
		want       []string // lines
	}{
		{"no shell", "pkg/zz/zz.go", []string{"6", "7", "8"}},
		{"no shell", "cmd/zz_test.go", []string{"6", "7", "8"}},
		{"no patterns", "cmd/zz.go", []string{"10"}},
		{"no patterns", "internal/zz/zz.go", nil},
		{"packages keep to themselves", "pkg/zz/zz.go", []string{"11", "13", "12"}},
		{"packages keep to themselves", "cmd/zz.go", nil},
		{"text is made printable", "cmd/zz.go", []string{"14", "15"}},
		{"text is made printable", "cmd/zz_test.go", nil},
		{"regular files", "cmd/zz.go", []string{"16", "18"}},
		{"regular files", "internal/zz/zz.go", nil},
		{"networks are opened in one place", "pkg/zz/zz.go", []string{"3"}},
		{"networks are opened in one place", "pkg/model/zz/zz.go", nil},
	} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, c.file, text, parser.SkipObjectResolution)
		expect.OK(t, err)
		var got []string
		for _, fault := range rules[c.rule](source{c.file, f, set}) {
			got = append(got, strings.Split(fault, ":")[1])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s in %s: lines %v, want %v", c.rule, c.file, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"sh": "sh", "/bin/sh": "sh", "bash -c x": "bash", `C:\Windows\System32\cmd.exe`: "cmd.exe", "/usr/bin/env": "env",
		"go": "", "shell": "", "": "", "-c": "", "grpo sh": "",
	} {
		if got := shellOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
