package evaluation

import (
	"context"
	"fmt"
	"image/png"
	"os"
	"path/filepath"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
)

// exampleEncoder is an encoder whose features are the colours of patches of 8 pixels, and whose [CLS] feature is their mean.
func exampleEncoder() *Encoder {
	return try.E1(colourEncoder(try.E1(backend.OpenConfig(backend.Go)), "vit-6x1x2p8"))
}

// show prints the numbers of a measurement.
func show(r Result, err error) {
	for _, n := range r.Numbers {
		fmt.Println(n)
	}
	if err != nil {
		fmt.Println(err)
	}
}

// plain are images of 16×16 pixels, each of one colour.
func plain(letters string) *datasets.Images {
	set := &datasets.Images{Height: 16, Width: 16, Labels: make([]int32, len(letters))}
	for i := range letters {
		set.Pixels = append(set.Pixels, datasets.RGB(painted(16, 16, letters[i:i+1]))...)
	}
	return set
}

// Of three test images, the second has the wrong label.
func ExampleKNN() {
	e := exampleEncoder()
	defer e.Close()
	d := Data{Objects: [2]datasets.Source{plain("rrbb"), plain("rrb")}, Labels: [2][]int32{{0, 0, 1, 1}, {0, 1, 1}}, Classes: 2}
	show(KNN{Classifier: knn.Classifier{K: 2, Temperature: 0.1}, Size: 16}.Measure(context.Background(), e, d))
	// Output: k-NN accuracy               66.67 %
}

func ExampleLinearClassification() {
	e := exampleEncoder()
	defer e.Close()
	d := Data{Objects: [2]datasets.Source{plain("rrbb"), plain("rrb")}, Labels: [2][]int32{{0, 0, 1, 1}, {0, 1, 1}}, Classes: 2}
	show(LinearClassification{LinearProbe: LinearProbe{Epochs: 20, Batch: 4, LearningRate: 0.1}, Size: 16}.Measure(context.Background(), e, d))
	// Output: linear accuracy             66.67 %
}

// Features of one colour have collapsed. Those of black and white lie on a line.
func ExampleSpread() {
	e := exampleEncoder()
	defer e.Close()
	for _, letters := range []string{"rr", "#."} {
		show(Spread{Images: 2, Size: 16}.Measure(context.Background(), e, Data{Objects: [2]datasets.Source{plain(letters)}}))
	}
	// Output:
	// std, spread of patch features     0.00
	// rank, effective rank of patch features     0.00
	// std, spread of patch features     1.00
	// rank, effective rank of patch features     1.00
}

// Of the four columns of patches in the middle of the test image, two are annotated as dark, of which the second is light.
func ExampleNearestCentroid() {
	e := exampleEncoder()
	defer e.Close()
	d := Data{Train: darkAndLight(as("##..")), Test: darkAndLight(layout{[]string{"##...."}, []string{"###..."}})}
	show(NearestCentroid{Size: 32}.Measure(context.Background(), e, d))
	// Output: patch accuracy              75.00 %
}

// Half of what is annotated as dark is found. Light is what is left, 75 % of the image, of which 50 are right: the mean of 1/2 and 2/3.
func ExampleInContext() {
	e := exampleEncoder()
	defer e.Close()
	d := Data{Train: darkAndLight(as("##..")), Test: darkAndLight(layout{[]string{"#..."}, []string{"##.."}})}
	show(InContext{Size: 32, Neighbours: 3, Temperature: 0.02, Memory: []int{16}}.Measure(context.Background(), e, d))
	// Output:
	// miou, mIoU                  58.33 %
	// pixel accuracy              75.00 %
}

// The two clusters are the two colours.
func ExampleOverclustering() {
	e := exampleEncoder()
	defer e.Close()
	d := Data{Test: darkAndLight(as("##..", "#..."), as("....", "####"))}
	show(Overclustering{Size: 32, Clusters: 2, Iterations: 10}.Measure(context.Background(), e, d))
	// Output:
	// miou, mIoU                 100.00 %
	// miou_matched, mIoU         100.00 %
}

// Of 16 patches of each image, 4 and 8 are dark. Of 256 pairs, 4·8 are dark and 12·8 are light; these are the most similar ones.
func ExampleNoiseRate() {
	e := exampleEncoder()
	defer e.Close()
	d := Data{Test: darkAndLight(as("#..."), as("##.."))}
	n := NoiseRate{Sample: PatchSample{Images: 2, Size: 32}, Bins: 2, PatchHead: heads.Projector{HiddenDim: 8, OutDim: 4}}
	r, err := n.Measure(context.Background(), e, d)
	fmt.Printf("%.1f %% of the most similar pairs, %.1f %% of all, %v\n", r.Numbers[0].Value, r.Numbers[0].Details[DetailAllPairs], err)
	// Output: 100.0 % of the most similar pairs, 50.0 % of all, <nil>
}

// exampleObject writes a photograph of 40×40 pixels with a light object and returns it with the object's box.
func exampleObject(dir string) Data {
	file := try.E1(os.Create(filepath.Join(dir, "photograph.png")))
	defer file.Close()
	try.E(png.Encode(file, painted(40, 40, "#####", "#####", "###..", "###..", "#####")))
	return Data{Boxed: []datasets.BoxedImage{{Path: file.Name(), Boxes: [][4]float64{{24, 16, 40, 32}}}}}
}

func ExampleLOST() {
	e, dir := exampleEncoder(), try.E1(os.MkdirTemp("", "lost"))
	defer os.RemoveAll(dir)
	defer e.Close()
	show(LOST{Expansion: 100}.Measure(context.Background(), e, exampleObject(dir)))
	// Output: corloc, CorLoc             100.00 %
}

func ExampleTokenCut() {
	e, dir := exampleEncoder(), try.E1(os.MkdirTemp("", "tokencut"))
	defer os.RemoveAll(dir)
	defer e.Close()
	show(TokenCut{Threshold: 0.2}.Measure(context.Background(), e, exampleObject(dir)))
	// Output: corloc, CorLoc             100.00 %
}

// The target is the source with its columns exchanged, twice as wide.
func ExampleKeypoints() {
	source := FeatureMap{Features: []float32{1, 0, 0, 1, -1, 0, 0, -1}, Rows: 2, Columns: 2, Dim: 2, Height: 20, Width: 20}
	target := FeatureMap{Features: []float32{0, 1, 1, 0, 0, -1, -1, 0}, Rows: 2, Columns: 2, Dim: 2, Height: 20, Width: 40}
	k, pck := Keypoints{Alpha: 0.1}, PCK{}
	found := k.Transfer(source, target, []Point{{5, 5}, {15, 15}})
	err := k.Add(&pck, found, []Point{{30, 5}, {14, 15}}, Box{0, 0, 30, 20}) // The second one is 4 pixels off, and 3 are right.
	fmt.Println(found, err)
	fmt.Println(pck)
	// Output:
	// [[30 5] [10 15]] <nil>
	// PCK per image:  50.00 %
	// PCK per point:  50.00 %
}
