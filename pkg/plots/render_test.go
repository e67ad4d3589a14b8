package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"io"
	"regexp"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
)

// SVG and PDF are the same bytes each time, without a date of their own.
func TestVectorFiles(t *testing.T) {
	runs := []*rundir.Run{reporttest.SynthRun(t, 1, 30)}
	first, err := Runs(runs, "A − B · 3 × 4", []string{"png", "svg", "pdf"})
	expect.OK(t, err)
	again, err := Runs(runs, "A − B · 3 × 4", []string{"svg", "pdf"})
	expect.OK(t, err)
	for i, d := range first {
		if len(d.Vector) != 2 || d.Vector[0].Format != "svg" || d.Vector[1].Format != "pdf" {
			t.Fatalf("%s has %d other formats", d.File, len(d.Vector))
		}
		for k, v := range d.Vector {
			if !bytes.Equal(v.Data, again[i].Vector[k].Data) {
				t.Errorf("%s as %s differs the second time", d.File, v.Format)
			}
		}
		svg, pdf := string(d.Vector[0].Data), string(d.Vector[1].Data)
		if err := xmlError(svg); err != nil || !strings.Contains(svg, "'Liberation Sans',Arial") || i == 0 && !strings.Contains(svg, ">A − B · 3 × 4<") {
			t.Errorf("%s: %v in %.300s", d.File, err, svg)
		}
		dates := regexp.MustCompile(`D:\d+`).FindAllString(pdf, -1)
		if !strings.HasPrefix(pdf, "%PDF-") || len(dates) != 2 || dates[0] != "D:19700101000000" || dates[1] != dates[0] {
			t.Errorf("%s: a PDF with the dates %q", d.File, dates)
		}
	}
	expect.Error(t, expect.Err(Runs(runs, "", []string{"gif"})), `"gif": the formats are png, svg and pdf`)
}

func xmlError(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// The letters of a PDF take the room that the layout gives them.
func TestOutlineFitsItsText(t *testing.T) {
	for _, text := range []string{"Validation answer reward", "AVAToday, 1 − 2 × 3", "β 中 é", " "} {
		for _, style := range []struct{ bold bool }{{false}, {true}} {
			f := plot.DefaultTextHandler.Cache().Lookup(textStyle(12, style.bold).Font, 12)
			lo, hi := vg.Length(1000), vg.Length(0)
			for _, c := range outline(f, vg.Point{X: 5, Y: 7}, text) {
				if c.Type != vg.CloseComp {
					lo, hi = min(lo, c.Pos.X), max(hi, c.Pos.X)
				}
			}
			if text == " " {
				if hi != 0 {
					t.Error("a space has a shape")
				}
				continue
			}
			if width := f.Width(text); lo < 5 || hi > 5+width || hi < 5+width*0.9 {
				t.Errorf("%q, bold %v: from %v to %v, want a width of %v", text, style.bold, lo, hi, width)
			}
		}
	}
}

func TestStraightColor(t *testing.T) {
	if r, g, b, a := (straight(color.NRGBA{R: 200, G: 100, B: 0, A: 51})).RGBA(); r>>8 != 200 || g>>8 != 100 || b != 0 || a != 51*0x101 {
		t.Errorf("%d %d %d %d", r, g, b, a)
	}
}
