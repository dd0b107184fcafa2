// Package selfdistillation trains encoders by DINO, iBOT and Mugs, from scratch or from a file: a student learns to predict its own moving average, the
// teacher, which sees other views of the same image.
//
// A [Config] and images go in; a [Trainer] of package train comes out. The losses are those of package losses. Of the authors' recipes, solarisation, the
// unlike blurs of two global views, and Mugs' strong augmentation are left out: views are those of package views. The next method gets a file with its
// loss and a case in step.loss.
package selfdistillation
