package optim

import "math"

// Cosine is a rate that rises linearly from 0 over warmup steps and falls to final on half a cosine, as
// torch.optim.lr_scheduler.CosineAnnealingLR does step by step: at step 0 without warm-up it is peak, at step total it is final.
// step in [0, total], 0 ≤ warmup < total; steps past total stay at final.
func Cosine(step, total, warmup int, peak, final float64) float64 {
	if step < warmup {
		return peak * float64(step+1) / float64(warmup)
	}
	progress := min(float64(step-warmup)/float64(total-warmup), 1)
	return final + (peak-final)*(1+math.Cos(math.Pi*progress))/2
}
