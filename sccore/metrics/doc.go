// Package metrics holds what features and predictions are judged by. Features, predictions and their truth go in, and numbers come out: mean
// IoU ([Confusion]), region and boundary measures of videos ([MeasureDAVIS]), accuracy, and how much of their space features use
// ([EffectiveRank], [Spread], [ClassSpread], [MeasureCollapse]). None of them trains anything or knows a protocol: that is package evaluation.
//
// The next metric gets a file here, named for it, and is compared with the code that the field uses in testdata.
package metrics
