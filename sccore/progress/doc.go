// Package progress shows the progress of long work in a bar that is updated in place, with the rate and the time left.
//
// The work reports to a [Bar], wherever it is drawn: [New] draws on a terminal or into a log, and package notebooks/nb in a notebook. Another
// renderer implements [Bar] on top of [State].
package progress
