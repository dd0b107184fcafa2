package theory

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// OrthogonalClasses are the theorem's best case: K classes of n images with m views, on the K axes of K dimensions, r = 1, with Gaussian noise of
// this standard deviation in each coordinate of each view. It panics without a class, image or view.
func OrthogonalClasses(classes, images, views int, noise float64, seed uint64) *Features {
	random := rand.New(rand.NewPCG(seed, 0))
	rows := mat.NewDense(classes*images*views, classes, nil)
	for i := range classes * images * views {
		row := rows.RawRowView(i)
		for j := range row {
			row[j] = noise * random.NormFloat64()
		}
		row[i/(images*views)]++
	}
	return mustGrid(rows, classes, images, views)
}

// RandomLabels are the counterexample to the printed theorem (erratum E14): all images lie in one small cap of the sphere in K dimensions, r = 1,
// with random labels. The centres of images have Gaussian noise of standard deviation size about the cap's centre, (1, …, 1), and their views a
// hundredth of it. An encoder of small Lipschitz constant produces such features from inputs in a small ball and meets all constraints of OP1; p_T
// and q_T are then 0 for thresholds near r², and labels cannot be predicted. It panics without a class, image or view.
func RandomLabels(classes, images, views int, size float64, seed uint64) *Features {
	random := rand.New(rand.NewPCG(seed, 0))
	rows := mat.NewDense(classes*images*views, classes, nil)
	centre := make([]float64, classes)
	for i := range classes * images * views {
		if i%views == 0 {
			for j := range centre {
				centre[j] = 1 + size*random.NormFloat64()
			}
		}
		for j, x := range centre {
			rows.Set(i, j, x+size/100*random.NormFloat64())
		}
	}
	return mustGrid(rows, classes, images, views)
}

func mustGrid(rows mat.Matrix, classes, images, views int) *Features {
	f, err := GridFeatures(rows, classes, images, views, 1)
	if err != nil {
		panic(err)
	}
	return f
}
