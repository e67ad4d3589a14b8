package plots

import (
	"encoding/xml"
	"fmt"
	"image/color"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"grpo/internal/reporttest"
	"grpo/pkg/sweepdir"
)

// pageFigures draws a sweep of each kind for a page.
func pageFigures(t *testing.T) map[string][]Drawing {
	t.Helper()
	wide, widened := reporttest.GridArms([]string{"1e-4", "1e-3"}, []string{"1", "2", "3", "4", "5", "6", "7"})
	out := map[string][]Drawing{}
	for name, sw := range map[string]*sweepdir.Sweep{
		"rates":   reporttest.DrawnSweep(3, reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2"), reporttest.RateArms()...),
		"by name": reporttest.DrawnSweep(2, nil, reporttest.DrawnArm{Name: "a", Label: "<é> & \"b\"", Final: 0.5, Clip: true}, reporttest.DrawnArm{Name: "b", Final: 0.6}),
		"map":     reporttest.DrawnSweep(2, wide, widened...),
		"long": reporttest.DrawnSweep(4, nil, reporttest.DrawnArm{Name: "a", Label: "learning rate 0.001, use std normalization true and more", Final: 0.5, Left: 2, Diverged: 20},
			reporttest.DrawnArm{Name: "b", Label: strings.Repeat("W", 90), Final: 0.6, Left: 4}),
		"panels": reporttest.DrawnSweep(2, nil, reporttest.ManyArms(8)...),
	} {
		all, err := Sweep(mustAnalyse(t, sw), SweepOptions{PageOnly: true})
		if err != nil || len(all) < 7 {
			t.Fatalf("%s: %d figures, %v", name, len(all), err)
		}
		out[name] = all
	}
	return out
}

// Every figure has its two forms, without a background; each color has one for dark pages or is
// legible on both kinds, and text stays within a phone.
func TestPageSVG(t *testing.T) {
	replaced := map[string]bool{"none": true, "#E69F00": true} // orange
	for _, c := range darkColors {
		replaced[fmt.Sprintf("#%02X%02X%02X", c.light.R, c.light.G, c.light.B)] = true
	}
	colors := regexp.MustCompile(`(?:fill|stroke):(#[0-9A-F]{6}|none)[;"]`)
	for name, all := range pageFigures(t) {
		for _, d := range all {
			if d.PNG != nil || d.Vector != nil {
				t.Errorf("%s: %s has files", name, d.File)
			}
			isMap := name == "map" && strings.HasPrefix(d.File, "final_vs")
			for form, p := range map[string]PageSVG{"page": d.Page, "phone": d.Phone} {
				text := string(p.Data)
				if err := xmlError(text); err != nil || p.Width < 200 || p.Height < 60 || !strings.Contains(text, "@media(prefers-color-scheme:dark)") {
					t.Fatalf("%s, %s, %s: %d x %d, %v", name, d.File, form, p.Width, p.Height, err)
				}
				_, drawn, _ := strings.Cut(text, "</style>")
				for _, m := range colors.FindAllStringSubmatch(drawn, -1) {
					if !replaced[m[1]] && !isMap {
						t.Errorf("%s, %s, %s: color %s on a dark page", name, d.File, form, m[1])
					}
				}
				if strings.Contains(drawn, "font-family") {
					t.Errorf("%s, %s, %s repeats its font", name, d.File, form)
				}
			}
			wantTextWithin(t, name+", "+d.File, d.Phone)
		}
	}
}

// wantTextWithin fails if a text of a figure for phones leaves it. Rotated text is left out.
func wantTextWithin(t *testing.T, where string, p PageSVG) {
	t.Helper()
	if p.Width != 302 {
		t.Errorf("%s is %d points wide on a phone", where, p.Width)
	}
	var upright []bool // of the open elements
	dec := xml.NewDecoder(strings.NewReader(string(p.Data)))
	for {
		token, err := dec.Token()
		if err != nil {
			return // the end: the text was parsed before
		}
		if _, ok := token.(xml.EndElement); ok {
			upright = upright[:len(upright)-1]
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		rotates := slices.ContainsFunc(e.Attr, func(a xml.Attr) bool { return strings.HasPrefix(a.Value, "rotate") })
		upright = append(upright, !rotates)
		if e.Name.Local != "text" || slices.Contains(upright, false) {
			continue
		}
		number := func(key string) float64 {
			k := slices.IndexFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == key })
			if k < 0 {
				return 0
			}
			v, _ := strconv.ParseFloat(e.Attr[k].Value, 64)
			return v
		}
		if x, width := number("x"), number("textLength"); x < 0 || x+width > 302 {
			t.Errorf("%s: text of %.0f points at %.0f", where, width, x)
		}
	}
}

func TestShortenMiddle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-zA-Z0-9é=,. -]{0,80}`).Draw(t, "text")
		width := vg.Length(rapid.IntRange(20, 300).Draw(t, "width"))
		got := shortenMiddle(legendText, s, width)
		if legendText.Width(got) > width || !strings.Contains(got, "…") && got != oneLine(s) {
			t.Fatalf("%q at %v: %q", s, width, got)
		}
	})
}

func TestProgress(t *testing.T) {
	drawn, err := Progress(mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.DrawnArm{Name: "a", Final: 0.5, Left: 2})))
	if err != nil || len(drawn) != 1 || drawn[0].File != "validation_reward.png" || drawn[0].Page.Data == nil || drawn[0].PNG != nil {
		t.Errorf("%d figures, %v", len(drawn), err)
	}
	a := mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.DrawnArm{Name: "a", Absent: 2}))
	if drawn, err := Progress(a); err != nil || len(drawn) != 0 {
		t.Errorf("before the first run: %d figures, %v", len(drawn), err)
	}
}

func TestExactColor(t *testing.T) {
	for opacity := 1; opacity <= 255; opacity++ {
		for _, part := range []uint8{0, 1, 0x5e, 0x72, 0xb2, 0xd5, 254} {
			r, _, _, a := exact(color.NRGBA{R: part, A: uint8(opacity)}).RGBA()
			if got := int(float64(r) * (255 / float64(a))); got != int(part) {
				t.Fatalf("%d at opacity %d: %d", part, opacity, got)
			}
		}
	}
}
