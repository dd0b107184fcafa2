package finetune

import "github.com/semcon/semcon/sccore/heads"

// FLOPs counts the floating-point operations of the matrix products and convolutions for one square image of size pixels, forward and with the auxiliary
// head. A product and its sum count as two. A training step takes about three times as many.
func (s Segmenter) FLOPs(size int) float64 {
	patches, dim := float64(size/s.ViT.PatchSize)*float64(size/s.ViT.PatchSize), float64(s.ViT.Dim)
	products := s.ViT.FLOPs(int(patches)) / 2
	products += patches * 4 * dim * dim * (1 + 4 + 1) // The transposed convolutions of the pyramid.

	level := []float64{16 * patches, 4 * patches, patches, patches / 4} // Places of the pyramid's levels.
	all, classes, width := level[0]+level[1]+level[2]+level[3], float64(s.Classes), float64(s.Channels)
	if s.Head == FPN {
		head := float64(s.fpn().Channels)
		products += all*dim*width + all*9*width*width                    // Neck.
		products += all*9*width*head + (2*level[1]+level[2])*9*head*head // Scale heads: the first convolution of each, and the others.
		return 2 * (products + level[0]*head*classes)
	}
	auxiliary := float64(s.auxiliary().Channels)
	fine := all - level[3]
	products += fine*dim*width + fine*9*width*width + level[3]*9*(dim+4*width)*width // Laterals and their convolutions, and the bottleneck of the pooled features.
	for _, scale := range heads.PoolScales {
		products += float64(scale*scale) * dim * width
	}
	products += level[0] * (9*4*width*width + width*classes)
	return 2 * (products + level[2]*(9*dim*auxiliary+auxiliary*classes))
}
