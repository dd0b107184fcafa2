// Package nb keeps the cells of the notebooks short. It provides the backend, a progress bar, figures and tables, and the folders of data and
// results. Outside a notebook, the same calls print text to the terminal.
//
// A cell cannot return an error. So the functions of this package print an error in one line and end the cell with a failure. [Check] and
// [Must] do the same for the errors of other packages.
package nb
