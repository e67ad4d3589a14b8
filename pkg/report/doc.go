// Package report writes what package analysis finds: tables as text, Markdown, CSV
// and HTML ([Table]), the sentences of the verdict, results.json, and the HTML page
// of a sweep or a study. It reads run folders and knows nothing of how a run is
// made. The same input gives the same bytes.
package report
