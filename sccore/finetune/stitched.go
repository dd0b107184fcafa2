package finetune

import (
	"image"
	"runtime"
	"sync"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/layers"
)

// stitched are the logits of an image that are averaged over its crops. They are computed row by row, because all classes at all pixels take gigabytes.
type stitched struct {
	Logits
	size    datasets.Size // Of the resized image.
	crop    datasets.Size
	corners []image.Point // Of the crops.
}

// rows computes rows of stitched logits. Each worker has its own.
type rows struct {
	*stitched
	down, across []layers.Tap // From logits to the pixels of a crop.
	line         []float32    // [Columns, Classes], a crop's logits at a row of its pixels.
	counts       []float32    // [size.Width], the crops that show a pixel.
}

func (s *stitched) rows() rows {
	return rows{
		stitched: s, down: layers.BilinearTaps(s.Rows, s.crop.Height), across: layers.BilinearTaps(s.Columns, s.crop.Width),
		line: make([]float32, s.Columns*s.Classes), counts: make([]float32, s.size.Width),
	}
}

// read writes the averaged logits of a row of pixels to out, [size.Width, Classes]. Sums are taken in the order of the crops.
func (r *rows) read(y int, out []float32) {
	clear(out)
	clear(r.counts)
	for i, corner := range r.corners {
		if y < corner.Y || y >= corner.Y+r.crop.Height {
			continue
		}
		down, length := r.down[y-corner.Y], len(r.line)
		low, high := r.Values[(i*r.Rows+down.Low)*length:][:length], r.Values[(i*r.Rows+down.High)*length:][:length]
		between(r.line, low, high, float32(down.Share))
		for x, tap := range r.across {
			low, high := r.line[tap.Low*r.Classes:][:r.Classes], r.line[tap.High*r.Classes:][:r.Classes]
			sums, share := out[(corner.X+x)*r.Classes:][:r.Classes], float32(tap.Share)
			for class := range sums {
				sums[class] += low[class] + float32(share*(high[class]-low[class]))
			}
			r.counts[corner.X+x]++
		}
	}
	for x, count := range r.counts {
		if count == 1 {
			continue
		}
		for class := range r.Classes {
			out[x*r.Classes+class] /= count
		}
	}
}

// between writes what lies at a share of the way from low to high.
func between(out, low, high []float32, share float32) {
	for i := range out {
		out[i] = low[i] + float32(share*(high[i]-low[i]))
	}
}

// predict resizes the logits to a size and returns the class of each pixel, [to.Height, to.Width].
func (s *stitched) predict(to datasets.Size) []uint8 {
	out := make([]uint8, to.Height*to.Width)
	down, across := layers.BilinearTaps(s.size.Height, to.Height), layers.BilinearTaps(s.size.Width, to.Width)
	var workers sync.WaitGroup
	for band, bands := 0, min(runtime.GOMAXPROCS(0), to.Height); band < bands; band++ {
		first, end := band*to.Height/bands, (band+1)*to.Height/bands
		workers.Go(func() {
			r := s.rows()
			var read [2][]float32 // The rows of the resized image that the current one lies between.
			holds := [2]int{-1, -1}
			row := func(y int) []float32 {
				k := y % 2 // The two rows are neighbours.
				if read[k] == nil {
					read[k] = make([]float32, s.size.Width*s.Classes)
				}
				if holds[k] != y {
					r.read(y, read[k])
					holds[k] = y
				}
				return read[k]
			}
			line := make([]float32, s.size.Width*s.Classes)
			for y := first; y < end; y++ {
				between(line, row(down[y].Low), row(down[y].High), float32(down[y].Share))
				for x, tap := range across {
					out[y*to.Width+x] = largest(line[tap.Low*s.Classes:][:s.Classes], line[tap.High*s.Classes:][:s.Classes], float32(tap.Share))
				}
			}
		})
	}
	workers.Wait()
	return out
}

// largest returns the class of the largest logit at a share of the way from low to high, or the first of equal ones.
func largest(low, high []float32, share float32) uint8 {
	best, most := 0, low[0]+float32(share*(high[0]-low[0]))
	for class := 1; class < len(low); class++ {
		if value := low[class] + float32(share*(high[class]-low[class])); value > most {
			best, most = class, value
		}
	}
	return uint8(best)
}
