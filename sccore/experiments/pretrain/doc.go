// Package pretrain trains with the paper's method in two stages ("Training pipeline"): alignment first, then the full method. Other experiments evaluate
// its encoders, and some train with its stages.
package pretrain
