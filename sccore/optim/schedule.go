package optim

import "math"

// Cosine is a cosine schedule with linear warm-up. It rises from 0 to peak over warmup steps and then follows half a cosine, down or up, from
// peak to final at step total, as torch.optim.lr_scheduler.CosineAnnealingLR does. 0 ≤ warmup < total. After step total it stays at final.
//
// The paper's method uses it without warm-up for the learning rate, 3e-5 to 1e-6, for weight decay, 0.024 to 0.24, and for the momentum of
// the target branch, 0.9997 to 1 ("Optimization strategy").
func Cosine(step, total, warmup int, peak, final float64) float64 {
	if step < warmup {
		return peak * float64(step+1) / float64(warmup)
	}
	progress := min(float64(step-warmup)/float64(total-warmup), 1)
	return final + (peak-final)*(1+math.Cos(math.Pi*progress))/2
}

// Poly falls from peak at step 0 to 0 at step total, as peak·(1 − step/total)^power. It is the schedule of mmsegmentation's recipes.
func Poly(step, total int, peak, power float64) float64 {
	return peak * math.Pow(max(0, 1-float64(step)/float64(total)), power)
}

// Milestones multiplies peak by factor at each of the milestones that step has reached. It is the schedule of mmdetection's and detectron2's recipes.
func Milestones(step int, peak, factor float64, milestones ...int) float64 {
	rate := peak
	for _, milestone := range milestones {
		if step >= milestone {
			rate *= factor
		}
	}
	return rate
}

// WarmUp scales the rate of a step before step warmup: linearly from the share ratio at step 0 to 1 at step warmup, as mmcv's linear warm-up does.
func WarmUp(step, warmup int, ratio, rate float64) float64 {
	if step >= warmup {
		return rate
	}
	return rate * (1 - (1-float64(step)/float64(warmup))*(1-ratio))
}
