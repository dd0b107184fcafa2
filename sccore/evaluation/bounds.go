package evaluation

// The bounds of settings. Beyond them, memory or counts do not fit, and no training makes sense.
const (
	maxSteps    = 1 << 24 // Steps of a training.
	maxEpochs   = 1 << 14 // Epochs; times the images of ImageNet they still fit in an int.
	maxRate     = 1e4     // Learning rates and weight decays.
	maxFeatures = 1 << 18 // Features in a batch: at 768 numbers each they take less than 1 GiB.
)
