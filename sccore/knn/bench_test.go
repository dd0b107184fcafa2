package knn

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/internal/usage"
)

// BenchmarkClassifier classifies 512 queries of ViT-S's width by a bank of 1,000 classes, in turn with the plain product of the same size: blocks in
// memory, no normalisation, results dropped. The larger bank is ImageNet's. Peak memory is what the search needs beyond the bank.
func BenchmarkClassifier(b *testing.B) {
	const queries, dim, classes = 512, 384, 1000
	for _, n := range []int{131072, 1281167} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			draw := func(rows int) *tensors.Tensor {
				t := tensors.FromShape(shapes.Make(dtypes.Float32, rows, dim))
				tensors.MustMutableFlatData(t, func(flat []float32) {
					for i := range flat {
						flat[i] = rng.Float32() - 0.5
					}
				})
				return t
			}
			bank, asked, labels := draw(n), draw(queries), make([]int32, n)
			for i := range labels {
				labels[i] = int32(rng.IntN(classes))
			}
			from := Labelled{tensors.MustCopyFlatData[float32](bank), dim, labels, classes}
			questions := tensors.MustCopyFlatData[float32](asked)
			engine, classifier := testbackend.Fastest(b), Classifier{K: 200, Temperature: 0.1}
			multiply := MustNewExec(engine, func(queries, features *Node) *Node {
				return DotGeneral(queries, []int{1}, nil, features, []int{1}, nil)
			})
			defer multiply.Finalize()
			part := draw(defaultBlocks.features)
			product := func() {
				for at := 0; at < n; at += defaultBlocks.features {
					out := multiply.MustCall(asked, part)[0]
					out.MustConstFlatData(func(any) {}) // Waits for it.
					out.MustFinalizeAll()
				}
			}
			product() // Compiles.

			var search, plain, searchCPU, plainCPU time.Duration
			var peak int64
			for b.Loop() {
				begun, used := time.Now(), usage.CPU()
				peak = max(peak, usage.PeakMemory(func() {
					if _, err := classifier.Rank(engine, from, questions, 5); err != nil {
						b.Fatal(err)
					}
				}))
				search, searchCPU = search+time.Since(begun), searchCPU+usage.CPU()-used
				begun, used = time.Now(), usage.CPU()
				product()
				plain, plainCPU = plain+time.Since(begun), plainCPU+usage.CPU()-used
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(search.Nanoseconds())/float64(b.N*queries), "ns/query")
			b.ReportMetric(float64(search)/float64(plain), "×product")
			b.ReportMetric(float64(searchCPU)/float64(plainCPU), "×CPU")
			b.ReportMetric(float64(peak)/1e6, "MB")
		})
	}
}
