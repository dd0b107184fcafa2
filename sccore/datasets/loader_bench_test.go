package datasets

import (
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/semcon/semcon/internal/usage"
)

// BenchmarkLoader reads JPEG files into batches of 16 at the size that the full profile pads images to, and at half of it, by numbers of workers. The files are
// COCO's below SEMCON_DATA, else noise of the size and the bytes of COCO's. "cache" reads them from a [Cache]. Add -tags turbo for libjpeg-turbo. Compare numbers of one run only.
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
				benchmarkLoader(b, images, size, workers)
			})
		}
		cache, err := OpenCache(b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		cached := images.Cached(cache)
		for i := range cached.Len() {
			if _, err := cached.Read(i, make([]uint8, size*size*3), size); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("cache/size=%d/workers=2", size), func(b *testing.B) { benchmarkLoader(b, cached, size, 2) })
	}
}

func benchmarkLoader(b *testing.B, images Source, size, workers int) {
	const batch = 16
	steps, began, source := 0, usage.CPU(), &counting{Source: images}
	for _, err := range (Loader{Scenes: source, BatchSize: batch, ImageSize: size, Workers: workers}).Batches(b.Context(), 0) {
		if err != nil {
			b.Fatal(err)
		}
		if steps++; steps == b.N {
			break
		}
	}
	b.ReportMetric(float64(source.read.Load())/(usage.CPU()-began).Seconds(), "images/CPU-s") // With those read ahead.
	b.ReportMetric(float64(batch*steps)/b.Elapsed().Seconds(), "images/s")
}

// counting counts the images that are read.
type counting struct {
	Source
	read atomic.Int64
}

func (c *counting) Read(i int, pixels []uint8, size int) (Size, error) {
	c.read.Add(1)
	return c.Source.Read(i, pixels, size)
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
