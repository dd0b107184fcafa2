// Package theory measures the quantities of the paper's theorem on trained encoders, which the augmentation study leaves.
package theory
