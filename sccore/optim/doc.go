// Package optim holds optimizers and schedules that GoMLX lacks. Optimizers update explicit variables inside the graph of a training step.
// Learning rates and other scheduled numbers are graph nodes, so that one compiled step serves every schedule.
//
// Add an optimizer as a file of its own, with a golden file in testdata that compares it with PyTorch.
package optim
