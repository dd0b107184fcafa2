// Package encoders holds what the evaluations of frozen encoders share, such as the experiments main, transfer, video, patch-recall and centroid.
//
// In goes a [Grid], which defines the configuration of a cell. It adds the encoders: random weights, those that the experiment pretrain has left, and
// the files that --set names for the rows of one of the paper's tables. Out come the cells of a [study.Spec], encoders that are ready to run
// ([Encoder.Open]), the datasets below --data ([Sources]) and tables with the paper's numbers beside ours ([Table]). A new evaluation is a folder
// beside this one with a configuration, a function that measures one encoder, and its tables; centroid is the shortest example.
package encoders
