// Package encoders is what the evaluations of frozen encoders share: the experiments main, transfer and video, and those to come.
//
// In goes a [Grid], which says what a cell's configuration is; the encoders come from it: random weights, what the experiment pretrain has left,
// and the files that --set names for the rows of a table of the paper. Out come the cells of a [study.Spec], encoders that are ready to run
// ([Encoder.Open]), the datasets below --data ([Sources]) and tables with the paper's numbers beside ours ([Table]). The next evaluation is a folder
// beside this one with a configuration, a function that measures one encoder, and its tables; video is the shortest example.
package encoders
