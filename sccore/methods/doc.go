// Package methods trains an encoder by comparing two views of an image, with the four image-level methods of the paper's augmentation
// study (Tab. effect_aug): SimCLR, Barlow Twins, MoCo and SimSiam.
//
// In come images of one size and [Settings]; out come the weights of a backbone, which [Frozen] maps views to features with. A [Trainer] serves
// any number of runs with one compiled step: what an image's views look like, the seed and the learning rate are inputs of the step. The next
// method is a name in settings.go, a head in heads.go and a case of Settings.loss.
package methods
