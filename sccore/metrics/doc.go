// Package metrics measures features and predictions. Features, predictions and their ground truth go in, and numbers come out: mean IoU
// ([Confusion]), region and boundary measures of videos ([EvaluateJF]), AP and AR of detections ([EvaluateCOCO]), accuracy ([Accuracy], [TopKAccuracy]), and how much of their space features
// use ([EffectiveRank], [Spread], [ClassSpread]). Nothing here trains or knows a protocol: that is package evaluation.
//
// The next metric gets a file here, named for it, and is compared in testdata with the code that the field uses.
package metrics
