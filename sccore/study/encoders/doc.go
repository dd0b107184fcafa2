// Package encoders makes studies of evaluations of frozen encoders, such as the experiments main, transfer, video, patch-recall and centroid.
//
// In goes an [Experiment]: an evaluation, its configuration in each profile, its datasets and tables. The package adds the encoders: random weights, those that
// the experiment pretrain has left, and the files that --set names for the rows of one of the paper's tables. Out come a [study.Spec], and tables with the
// paper's numbers beside ours ([Table]). Experiments that train encoders further take a [Grid] and [Sources] alone. centroid is the shortest example.
package encoders
