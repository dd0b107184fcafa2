// Package methods trains an encoder by comparing two views of an image, with the four image-level methods of the paper's augmentation study (Tab.
// effect_aug): SimCLR, Barlow Twins, MoCo and SimSiam.
//
// It takes images of one size and a [Config] and produces the weights of a backbone; a [FeatureExtractor] then maps views to features. A [Trainer]
// serves any number of runs with one compiled step: the augmentation of views, the seed and the learning rate are inputs of the step. A new method
// needs a name in config.go, a head in heads.go and a case in Config.loss.
package methods
