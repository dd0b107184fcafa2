package encoder

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// TestFilterIsItsFormulas compares the filter with the paper's formulas, written as loops.
func TestFilterIsItsFormulas(t *testing.T) {
	const batch, rows, columns, dim, heads, prototypes = 2, 3, 4, 6, 2, 5
	const tokens, head = 1 + rows*columns, dim / heads
	v := ViT{PatchSize: 1, Dim: dim, Depth: 1, NumHeads: heads, GridSize: 1, Prototypes: prototypes, Positions: DINOPositions}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		values := map[string][]float64{}
		for i, w := range v.Weights() {
			if name, ok := strings.CutPrefix(w.Path, "blocks/0/filter"); ok {
				value := waveform(i, w.Shape...)
				values[name] = tensors.MustCopyFlatData[float64](value)
				if _, err := store.CreateVariable(name, value); err != nil {
					t.Fatal(err)
				}
			}
		}
		input := waveform(100, batch, tokens, dim)
		exec := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) []*Node {
			var out Tokens
			y := v.filter(scope, parameters{g: x.Graph(), master: dtypes.Float64, compute: dtypes.Float64, epsilon: 1e-6}, x, rows, columns, &out)
			return []*Node{y, out.FilterAttention}
		})
		defer exec.Finalize()
		got := exec.MustCall(input)
		y, attention := tensors.MustCopyFlatData[float64](got[0]), tensors.MustCopyFlatData[float64](got[1])
		x := tensors.MustCopyFlatData[float64](input)

		apply := func(name string, in []float64, out int) []float64 {
			sums := append([]float64{}, values["/"+name+"/bias"]...)
			for o := range sums {
				for i := range in {
					sums[o] += in[i] * values["/"+name+"/weight"][i*out+o]
				}
			}
			return sums
		}
		normalise := func(in []float64) []float64 {
			mean, variance := 0.0, 0.0
			for _, a := range in {
				mean += a / dim
			}
			for _, a := range in {
				variance += (a - mean) * (a - mean) / dim
			}
			out := make([]float64, dim)
			for i, a := range in {
				out[i] = (a-mean)/math.Sqrt(variance+1e-6)*values["/norm/weight"][i] + values["/norm/bias"][i]
			}
			return out
		}
		token := func(image, row, column int) []float64 {
			at := ((image*tokens + 1) + row*columns + column) * dim
			return x[at : at+dim]
		}
		prototype := func(m, row, column int) []float64 {
			at := ((m*3+row)*3 + column) * dim
			return values["/prototypes"][at : at+dim]
		}
		check := func(what string, got, want float64) {
			if !(math.Abs(got-want) <= 1e-9) {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
		for image := range batch {
			for i := range dim {
				check("the [CLS] token", y[image*tokens*dim+i], x[image*tokens*dim+i])
			}
			for row := range rows {
				for column := range columns {
					h := normalise(token(image, row, column))
					joined := append([]float64{}, h...)
					for s := range heads {
						mu := make([]float64, prototypes)
						total := 0.0
						for m := range mu {
							for dy := range 3 {
								for dx := range 3 {
									r, c := row+dy-1, column+dx-1
									if r < 0 || r >= rows || c < 0 || c >= columns {
										continue
									}
									query, key := apply("q", normalise(token(image, r, c)), dim), apply("k", prototype(m, dy, dx), dim)
									for f := s * head; f < (s+1)*head; f++ {
										mu[m] += query[f] * key[f]
									}
								}
							}
							mu[m] = math.Exp(mu[m] / math.Sqrt(head))
							total += mu[m]
						}
						aggregated := make([]float64, head)
						for m := range mu {
							at := (((image*heads+s)*rows+row)*columns+column)*prototypes + m
							check("attention", attention[at], mu[m]/total)
							for place := range 9 {
								value := apply("v", prototype(m, place/3, place%3), dim)
								for f := range aggregated {
									aggregated[f] += mu[m] / total * value[s*head+f] / 9
								}
							}
						}
						joined = append(joined, aggregated...)
					}
					for i, added := range apply("proj", joined, dim) {
						at := ((image*tokens+1)+row*columns+column)*dim + i
						check("filtered token", y[at], x[at]+added)
					}
				}
			}
		}
	})
}

// waveform returns a tensor of values of a sine. The values depend on k.
func waveform(k int, dims ...int) *tensors.Tensor {
	values := make([]float64, shapes.Make(dtypes.Float64, dims...).Size())
	for i := range values {
		values[i] = float64(math.Sin(12.9898*float64(i) + 78.233*float64(k)))
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}
