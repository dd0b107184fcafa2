// Package tensorboard writes scalars as event files that TensorBoard reads.
//
// In go steps with named numbers. Out comes one file of TFRecords, each an Event message of TensorFlow. The next kind of summary, such as an image, gets a
// function beside [Encode].
package tensorboard
