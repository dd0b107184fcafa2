// Package ablation studies the effect of each part of the method ("Ablation Studies"). Seven lines with parts of the method on or off train from the same
// checkpoint per seed, and an eighth that the paper does not have, whose filter acts before the last attention.
package ablation
