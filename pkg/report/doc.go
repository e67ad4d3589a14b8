// Package report reads run folders and says what is in them: curves as PNG,
// tables as text and Markdown, and verdicts. The statistics are those of package
// stats. It knows the form of a run's folder and its configuration, and nothing of
// how a run is made.
//
// The layers, from the ground up:
//
//	about.go outcomes.go     what a run is and what came of it
//	pool.go                  which runs are seeds of one configuration
//	series.go                curves of one run and their mean over seeds
//	table.go summary.go markdown.go   words and tables
//	style.go ticks.go legend.go figure.go png.go   how a figure looks
//	validation.go training.go         the figures
//
// The same input gives the same bytes. Nothing is smoothed, and every figure
// and table says which statistic it shows and of how many.
package report
