package sccore

import "github.com/semcon/semcon/sccore/train"

// Workload counts a step from the configuration: transformers and heads of both branches, and of a teacher that does not train. Views and losses are not
// counted, which model FLOP utilisation leaves out.
func (o *Objective) Workload() train.Workload {
	s := o.step
	patches := func(side int) int { return (side / s.vit.PatchSize) * (side / s.vit.PatchSize) }
	view := func(side int, object bool) float64 {
		flops := s.vit.FLOPs(patches(side))
		if object && s.hasImageLoss() {
			flops += s.ImageHead.FLOPs(s.vit.Dim)
		}
		if s.hasPatchLoss() {
			flops += float64(patches(side)) * s.PatchHead.FLOPs(s.vit.Dim)
		}
		return flops
	}
	views := func(object bool) (globals, locals float64) {
		return float64(s.Views.Globals) * view(s.Views.GlobalCropSize, object), float64(s.Views.Locals) * view(s.Views.LocalCropSize, object)
	}
	total := 0.0
	for object, images := range map[bool]int{true: s.objects, false: s.images() - s.objects} {
		globals, locals := views(object)
		const backward = 2 // Gradients of both factors of each product.
		total += float64(images) * ((1+backward)*(globals+locals) + globals)
		if s.Lambdas.PatchConcentration > 0 && s.fromTeacher() {
			total += float64(images*s.Views.Globals) * s.teacher().vit.FLOPs(patches(s.Views.GlobalCropSize))
		}
	}
	total += float64(s.positives()) * view(s.Views.GlobalCropSize, true)
	return train.Workload{Images: o.config.Batch, FLOPs: float64(o.Parts()) * total, BFloat16: s.vit.ComputeDType.IsHalfPrecision()}
}
