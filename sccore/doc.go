// Package sccore is the paper's method ("Methodology").
//
// In come a [Config] and [Data]; out comes a [Trainer] of the two branches, whose every step reports [StepMetrics] and whose encoders
// [Trainer.SaveEncoder] writes. An [Objective] puts the step's graph together from views, encoder, heads and losses; package train runs it. The
// next loss is a weight of losses.Lambdas, a case of step.forward and a line of StepMetrics.
package sccore
