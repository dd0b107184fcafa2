// Package studytest has what the tests of experiments share: a backend that needs no compilation, and the records that a run has left.
package studytest
