package optim

import "math"

// Cosine is a rate that rises linearly from 0 over warmup steps and goes to final on half a cosine, down or up, as
// torch.optim.lr_scheduler.CosineAnnealingLR does step by step: at step 0 without warm-up it is peak, at step total it is final.
// step in [0, total], 0 ≤ warmup < total; steps past total stay at final.
//
// All three schedules of the paper's method are such, without warm-up: rate 3e-5 to 1e-6, weight decay 0.024 to 0.24, and the target
// branch's momentum 0.9997 to 1 ("Optimization strategy").
func Cosine(step, total, warmup int, peak, final float64) float64 {
	if step < warmup {
		return peak * float64(step+1) / float64(warmup)
	}
	progress := min(float64(step-warmup)/float64(total-warmup), 1)
	return final + (peak-final)*(1+math.Cos(math.Pi*progress))/2
}
