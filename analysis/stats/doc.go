// Package stats says what measured numbers mean. Values of runs go in; a mean with its interval over seeds ([MeanInterval]), its p-value ([PValue]) and
// the correction for several tests ([Holm]), rank correlation ([Spearman]), the area under the ROC curve ([AUC]), principal components and means by bin
// come out.
//
// The next statistic gets a file here and is compared with SciPy in testdata.
package stats
