// Package effectaug is the augmentation study (Tab. effect_aug and effect_aug_full). It measures how the k-NN accuracy of four image-level methods
// depends on the transformations that make their views, and on whether the views show different positions.
package effectaug
