// Package sccore is the paper's method ("Methodology").
//
// It takes a [Config] and [Data] and returns a [Trainer] of the two branches. Every step reports [StepMetrics], and
// [Trainer.SaveEncoder] writes an encoder. An [Objective] builds the step's graph from views, encoder, heads and losses; package train runs it.
// A new loss needs a weight in losses.Lambdas, a field in StepMetrics, a line in [Losses] and its place in step.pass.
package sccore
