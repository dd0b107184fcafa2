// Package fakemachine replaces Python, Go and the C compiler with scripts, so that tests can set up a checkout in milliseconds and make any part
// of it fail.
package fakemachine
