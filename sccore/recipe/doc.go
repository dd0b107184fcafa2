// Package recipe trains with the paper's method in stages ("Training pipeline"): what a stage starts from, the neighbours that it draws positives from, its
// curve and its best encoder. Experiments list stages and say what is recorded of them.
package recipe
