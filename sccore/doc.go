// Package sccore is the paper's method ("Methodology").
//
// It takes a [Config] and [Data] and returns a [Trainer] of the two branches. Every step reports [StepMetrics], and
// [Trainer.SaveEncoder] writes an encoder. An [Objective] builds the step's graph from views, encoder, heads and losses; package train runs it.
// A new loss needs a weight in losses.Lambdas, a case in step.forward and a field in StepMetrics.
package sccore
