package plots

// responseLength is the length of right and of wrong completions.
func responseLength(v *view) *figure {
	c := chart{
		xLabel: stepLabel(v.infos), yLabel: "completion length (tokens, mean)", xMax: v.xMax, band: metricRange,
	}
	right, wrong := c, c
	right.y = v.averaged(lengthRight)
	wrong.y = v.averaged(lengthWrong)
	rights, wrongs := right.curves(v), wrong.curves(v)
	if len(rights)+len(wrongs) == 0 {
		return nil
	}
	y := c.yAxis(append(rights, wrongs...)...)
	fig := &figure{
		title: "Completion length", width: v.width(wideWidth),
		caption: []string{v.meanCaption(!v.panels()), "Each point: " + v.batchPoint()},
		notes:   []string{"A step without a right (or wrong) completion has no such length."},
	}
	if v.panels() {
		fig.panelHeight, fig.xLabel, fig.yLabel = panelInches, c.xLabel, c.yLabel
		options := curveOptions{width: 1.6, seedOpacity: 0.3}
		fig.addPairs(v, y, named{"right completions", right.y, rightStyle, options},
			named{"wrong completions", wrong.y, wrongStyle, options})
		return fig
	}
	fig.panelHeight = 3.3
	columns := 2
	if v.phone {
		columns = 1
	}
	r, w := right.overlay(v, rights, y), wrong.overlay(v, wrongs, y)
	r.title, w.title = "Right completions", "Wrong completions"
	fig.addPanel(columns, r)
	fig.addPanel(columns, w)
	fig.shareLegend()
	return fig
}
