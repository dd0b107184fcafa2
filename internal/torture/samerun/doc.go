// Package samerun compares two runs of an experiment that should have had the same result, such as one that was killed and one that was not. Their folders go in;
// what differs comes out. Wall times and locks, which no run repeats, are left out.
package samerun
