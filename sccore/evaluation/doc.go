// Package evaluation evaluates frozen encoders, each by a stated protocol. An encoder, wrapped by [NewFeatureExtractor], and a dataset go in; what a
// protocol measures comes out: accuracy in percent, [metrics.Segmentation], [metrics.JF]. [KNNEvaluator], [PatchProbeEvaluator] and [SpreadEvaluator]
// run during training.
//
// Each protocol has a file of its own, named for it, with a type that holds its settings, a Check and a method that evaluates. The next protocol does
// the same. Metrics belong in package metrics, trainable heads in package heads.
package evaluation
