package cmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The commands of Slurm for test scripts. Their state is in the folder FAKE_SLURM:
//
//	ID.args ID.sh          what sbatch was given
//	queue                  lines of squeue: ID|TASK|STATE|REASON|NODE|COMMENT
//	calls                  calls of scontrol requeue and scancel
//	job                    what "scontrol show job" prints
//	maxarray               MaxArraySize
//	sbatch.fails squeue.fails requeue.fails scancel.fails   the error of that command; it fails while the file is there
var fakeSlurm = map[string]func(){
	"sbatch":   func() { os.Exit(fake(fakeSbatch)) },
	"squeue":   func() { os.Exit(fake(fakeSqueue)) },
	"scontrol": func() { os.Exit(fake(fakeScontrol)) },
	"scancel":  func() { os.Exit(fake(fakeScancel)) },
}

func fake(f func(args []string) error) int {
	if err := f(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func fakeFile(name string) string { return filepath.Join(os.Getenv("FAKE_SLURM"), name) }

func fakeRead(name string) string {
	data, _ := os.ReadFile(fakeFile(name))
	return strings.TrimSpace(string(data))
}

func fakeAppend(name, text string) error {
	f, err := os.OpenFile(fakeFile(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func fakeFails(name string) error {
	if text := fakeRead(name + ".fails"); text != "" {
		return fmt.Errorf("%s: error: %s", name, text)
	}
	return nil
}

func fakeSbatch(args []string) error {
	if slices.Contains(args, "--version") {
		fmt.Println("slurm 22.05.8")
		return nil
	}
	if err := fakeFails("sbatch"); err != nil {
		return err
	}
	script, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	id := 101
	for {
		if _, err := os.Stat(fakeFile(strconv.Itoa(id) + ".sh")); err != nil {
			break
		}
		id++
	}
	comment, tasks := "", []string(nil)
	most, _ := strconv.Atoi(fakeRead("maxarray"))
	for _, a := range args {
		if text, ok := strings.CutPrefix(a, "--comment="); ok {
			comment = text
		}
		if text, ok := strings.CutPrefix(a, "--array="); ok {
			text, _, _ = strings.Cut(text, "%")
			for part := range strings.SplitSeq(text, ",") {
				from, to, isRange := strings.Cut(part, "-")
				if !isRange {
					to = from
				}
				a, _ := strconv.Atoi(from)
				b, _ := strconv.Atoi(to)
				for ; a <= b; a++ {
					tasks = append(tasks, strconv.Itoa(a))
					if most > 0 && a >= most {
						return fmt.Errorf("sbatch: error: Batch job submission failed: Invalid job array specification")
					}
				}
			}
		}
	}
	lines := ""
	for _, t := range tasks {
		lines += fmt.Sprintf("%d_%s|%s|PENDING|Resources||%s\n", id, t, t, comment)
	}
	if tasks == nil {
		lines = fmt.Sprintf("%d|N/A|PENDING|Dependency||%s\n", id, comment)
	}
	name := strconv.Itoa(id)
	err = os.WriteFile(fakeFile(name+".sh"), script, 0o666)
	if err == nil {
		err = os.WriteFile(fakeFile(name+".args"), []byte(strings.Join(args, "\n")+"\n"), 0o666)
	}
	if err == nil {
		err = fakeAppend("queue", lines)
	}
	fmt.Printf("%d;fake\n", id)
	return err
}

func fakeSqueue(args []string) error {
	if err := fakeFails("squeue"); err != nil {
		return err
	}
	ids := strings.Split(args[slices.Index(args, "-j")+1], ",")
	found := false
	for line := range strings.Lines(fakeRead("queue") + "\n") {
		id, _, _ := strings.Cut(line, "|")
		id, _, _ = strings.Cut(id, "_")
		if slices.Contains(ids, id) {
			found = true
			fmt.Print(line)
		}
	}
	if !found {
		return fmt.Errorf("slurm_load_jobs error: Invalid job id specified")
	}
	return nil
}

func fakeScontrol(args []string) error {
	switch strings.Join(args[:2], " ") {
	case "show config":
		if most := fakeRead("maxarray"); most != "" {
			fmt.Printf("MaxArraySize            = %s\nMaxJobCount = 10000\n", most)
		}
	case "show job":
		fmt.Println(fakeRead("job"))
	default:
		if err := fakeAppend("calls", "scontrol "+strings.Join(args, " ")+"\n"); err != nil {
			return err
		}
		return fakeFails("requeue")
	}
	return nil
}

func fakeScancel(args []string) error {
	if err := fakeFails("scancel"); err != nil {
		return err
	}
	lines := ""
	for line := range strings.Lines(fakeRead("queue") + "\n") {
		id, _, _ := strings.Cut(line, "|")
		job, _, _ := strings.Cut(id, "_")
		if slices.Contains(args, job) || slices.Contains(args, id) {
			f := strings.Split(line, "|")
			f[2] = "CANCELLED"
			line = strings.Join(f, "|")
		}
		lines += line
	}
	if err := os.WriteFile(fakeFile("queue"), []byte(lines), 0o666); err != nil {
		return err
	}
	return fakeAppend("calls", "scancel "+strings.Join(args, " ")+"\n")
}
