// Package evaluation turns a frozen encoder into numbers, with the protocol stated. An encoder, wrapped by [NewFrozen], and a dataset go in;
// what a protocol measures comes out: accuracy in percent, [metrics.Segmentation], [metrics.DAVIS].
//
// Each protocol has a file of its own, named for it, with a type that holds its settings, a Check of them, and a method that measures. The
// next protocol gets one too. What it counts with belongs in package metrics, what it trains in package heads.
package evaluation
