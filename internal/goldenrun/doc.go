// Package goldenrun checks that training does not change: a checkpoint that an earlier version wrote in the middle of a run can be resumed, and
// the following steps give the same numbers and the same last checkpoint, byte for byte.
package goldenrun
