// Steps is a reward in Go: the share of the equations in a completion that are true.
//
//	go build -o steps ./examples/rewards/steps
//	grpo reward try examples/rewards/steps.yaml
package main

import (
	"encoding/json"
	"io"
	"log"
	"os"
	"regexp"
	"strconv"
)

type batch struct {
	Version     int `json:"version"`
	ID          int `json:"id"`
	Completions []struct {
		Completion string `json:"completion"`
	} `json:"completions"`
}

type answer struct {
	ID      int              `json:"id"`
	Rewards []*float64       `json:"rewards"`
	Columns map[string][]int `json:"columns"`
}

var equation = regexp.MustCompile(`<<(\d+)([-+*])(\d+)=(-?\d+)>>`)

// steps returns the number of equations in a text and how many of them are true.
func steps(text string) (n, right int) {
	for _, m := range equation.FindAllStringSubmatch(text, -1) {
		a, _ := strconv.Atoi(m[1])
		b, _ := strconv.Atoi(m[3])
		got, _ := strconv.Atoi(m[4])
		want := map[string]int{"+": a + b, "-": a - b, "*": a * b}[m[2]]
		if n++; got == want {
			right++
		}
	}
	return n, right
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var b batch
		switch err := in.Decode(&b); {
		case err == io.EOF:
			return
		case err != nil:
			log.Fatal(err)
		case b.Version != 1:
			log.Fatalf("protocol version %d is not known", b.Version)
		}
		a := answer{ID: b.ID, Columns: map[string][]int{}}
		for _, c := range b.Completions {
			n, right := steps(c.Completion)
			var share *float64 // null without an equation
			if n > 0 {
				x := float64(right) / float64(n)
				share = &x
			}
			a.Rewards = append(a.Rewards, share)
			a.Columns["equations"] = append(a.Columns["equations"], n)
		}
		if err := out.Encode(a); err != nil {
			log.Fatal(err)
		}
	}
}
