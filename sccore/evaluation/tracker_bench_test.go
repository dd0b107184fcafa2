package evaluation_test

import (
	"context"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
)

// BenchmarkTrack measures frames per second at DAVIS's size, 854×480, with ViT-S/16, and with pixels as features, which measures propagation alone.
func BenchmarkTrack(b *testing.B) {
	vit, err := encoder.ViTByName("vit-s16")
	if err != nil {
		b.Fatal(err)
	}
	engine := testbackend.Fastest(b)
	for _, c := range []struct {
		name    string
		patches func(scope *model.Scope, images *Node) *Node
	}{
		{"pixels", pixelPatches(vit.PatchSize)},
		{"vit-s16", func(scope *model.Scope, images *Node) *Node {
			return vit.Tokens(scope, encoder.Standardize(images)).Patches
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			tracker, err := evaluation.DefaultLabelPropagation().NewTracker(engine, model.NewStore(), vit.PatchSize, c.patches)
			if err != nil {
				b.Fatal(err)
			}
			defer tracker.Close()
			frame, mask := make([]uint8, 854*480*3), make([]uint8, 854*480)
			for p := range frame {
				frame[p] = uint8(p * p >> 7)
			}
			mask[len(mask)/2] = 1
			size := datasets.Size{Height: 480, Width: 854}
			frames := func(n int) {
				if _, err := tracker.Track(context.Background(), still("noise", n, size, frame, mask)); err != nil {
					b.Fatal(err)
				}
			}
			frames(2) // This compiles.
			b.ResetTimer()
			frames(b.N + 1)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}
