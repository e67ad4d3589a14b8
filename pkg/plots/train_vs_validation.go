package plots

// trainVsValidation is the reward of the training batches next to that of the
// validation, arm by arm: a gap means that the policy overfits its problems.
func trainVsValidation(v *view) *figure {
	train := v.averaged(trainReward)
	if len(chart{y: train}.curves(v)) == 0 {
		return nil
	}
	fig := &figure{
		title: "Training and validation answer reward", width: v.width(wideWidth), panelHeight: panelInches,
		xLabel: stepLabel(v.infos), yLabel: "answer reward (fraction correct)",
		caption: []string{v.meanCaption(false), "Training: " + v.batchPoint(), "Validation: " + heldOut(v.runs) + "."},
		notes:   []string{"Training: the answer reward, whatever reward was trained on."},
	}
	if v.columns() < 3 {
		fig.panelHeight = 2.75
	}
	if v.columns() == 1 {
		fig.width = v.width(pageWidth)
	}
	steps := curveOptions{width: 1.6, seedOpacity: 0.3}
	evaluations := curveOptions{width: 1.6, seedOpacity: 0.3, markers: 8}
	fig.addPairs(v, yAxis{hi: 1}, named{"training batch", train, trainStyle, steps},
		named{"validation, sampled", validationOf, sampledStyle, evaluations})
	return fig
}
