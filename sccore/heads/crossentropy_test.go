package heads

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

// One pixel of two classes, repeated by the resize to 2×2 labels: logits (0, ln 3) give probabilities 1/4 and 3/4.
func TestCrossEntropyDividesByAllPixels(t *testing.T) {
	for _, test := range []struct {
		labels []uint8
		want   float64
	}{
		{[]uint8{0, 0, 0, 0}, math.Log(4)},
		{[]uint8{0, 1, 255, 255}, (math.Log(4) + math.Log(4./3)) / 4},
		{[]uint8{255, 255, 255, 1}, math.Log(4./3) / 4},
		{[]uint8{2, 2, 255, 0}, math.Log(4) / 4}, // A label beyond the classes is ignored too.
		{[]uint8{255, 255, 255, 255}, 0},
	} {
		out, err := CallOnceN(testbackend.Go(t), func(logits, labels *Node) []*Node {
			loss := CrossEntropy(logits, labels)
			return []*Node{loss, Gradient(loss, logits)[0]}
		}, [][][][]float64{{{{0, math.Log(3)}}}}, tensors.FromFlatDataAndDimensions(test.labels, 2, 2, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := out[0].Value().(float64); !(math.Abs(got-test.want) < 1e-12) {
			t.Errorf("labels %v: %g, want %g", test.labels, got, test.want)
		}
		for _, gradient := range tensors.MustCopyFlatData[float64](out[1]) {
			if math.IsNaN(gradient) || test.want == 0 && gradient != 0 {
				t.Errorf("labels %v: gradient %g", test.labels, gradient)
			}
		}
	}
}
