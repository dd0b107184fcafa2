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
