package datasets

import (
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/internal/usage"
)

// BenchmarkLoader reads JPEG files into batches of 16 at the size that the full profile pads images to, and at half of it, by numbers of workers. The files are
// COCO's below SEMCON_DATA, else noise of the size and the bytes of COCO's. Add -tags turbo for libjpeg-turbo. Compare numbers of one run only.
func BenchmarkLoader(b *testing.B) {
	images, err := COCO(os.Getenv("SEMCON_DATA"), Train)
	if os.Getenv("SEMCON_DATA") == "" {
		images, err = OpenImageFolder(noisyPhotographs(b))
	}
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{512, 256} {
		for _, workers := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/size=%d/workers=%d", filepath.Base(JPEGDecoder), size, workers), func(b *testing.B) {
				const batch = 16
				steps, began := 0, usage.CPU()
				for _, err := range (Loader{Scenes: images, BatchSize: batch, ImageSize: size, Workers: workers}).Batches(b.Context(), 0) {
					if err != nil {
						b.Fatal(err)
					}
					if steps++; steps == b.N {
						break
					}
				}
				// The batch that is read ahead stops between images.
				b.ReportMetric(float64(batch*steps)/(usage.CPU()-began).Seconds(), "images/CPU-s")
				b.ReportMetric(float64(batch*steps)/b.Elapsed().Seconds(), "images/s")
			})
		}
	}
}

// noisyPhotographs writes JPEG files of 640×480 pixels and about 160 kB, as COCO's are.
func noisyPhotographs(b *testing.B) (dir string) {
	dir = b.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 8 {
		photo := image.NewRGBA(image.Rect(0, 0, 640, 480))
		for p := range photo.Pix {
			photo.Pix[p] = uint8(p/9000 + 60 + random.IntN(48))
		}
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.jpg", i)))
		if err != nil {
			b.Fatal(err)
		}
		if err := jpeg.Encode(file, photo, &jpeg.Options{Quality: 90}); err != nil {
			b.Fatal(err)
		}
		if err := file.Close(); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}
