package figures_test

import (
	"fmt"
	"os"

	"github.com/semcon/semcon/figures"
)

// Three runs stand beside the paper's number; nobody measured the second column.
func ExampleTable() {
	table := figures.Table{
		Caption:  "k-NN accuracy.",
		Unit:     "%",
		Profile:  "quick",
		RowHeads: []figures.RowHead{{Name: "random_crop", Switch: true}},
		Columns:  []string{"CIFAR-10/SimCLR", "CIFAR-10/MoCo"},
		Rows: []figures.Row{
			{Heads: []string{"1"}, Cells: []figures.Cell{{Paper: 62.7, Ours: []float64{51.2, 50.6, 51.5}}, {Paper: 74.9}}},
		},
	}
	fmt.Println(table.Markdown())
	// Output:
	// | (a) | CIFAR-10<br>SimCLR | CIFAR-10<br>MoCo |
	// | :-: | --: | --: |
	// | ✓ | 62.7 / **51.1 ± 0.5** (−11.6) | 74.9 / |
	//
	// k-NN accuracy. (a) random crop. Each cell: paper / ours ± sd (difference), in %. 3 seeds. Profile: quick.
}

// A table of the paper, and one of its numbers.
func ExamplePaper() {
	paper, err := figures.Paper("effect_aug")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("all four, SimCLR:", paper.Value("CIFAR-10/SimCLR", "1", "1", "1", "1"))
	fmt.Println(len(paper.Rows), "rows,", len(paper.Columns), "columns")
	// Output:
	// all four, SimCLR: 88.5
	// 6 rows, 8 columns
}

// The values are differences of runs that share a seed.
func ExampleClaim_Evaluate() {
	claim := figures.Claims()[0]
	interval, verdict := claim.Evaluate([]float64{12, 13.5, 11})
	fmt.Printf("%s %s, %s: %.1f in [%.1f, %.1f]: %s\n", claim.ID, claim.Part, claim.Text, interval.Mean, interval.Low, interval.High, verdict)
	// Output:
	// C1 SimCLR, independent random crops help: 12.2 in [9.0, 15.3]: holds alone
}

func ExampleCurves() {
	curves := figures.Curves{X: "epoch", Y: "k-NN accuracy (%)", Series: []figures.Series{
		{Name: "SimCLR", X: []float64{1, 2, 3}, Y: []float64{31, 42, 48}},
		{Name: "MoCo", X: []float64{1, 2, 3}, Y: []float64{28, 40, 47}},
	}}
	dir, err := os.MkdirTemp("", "figures")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := figures.SaveFigure(dir, "accuracy", curves); err != nil {
		panic(err)
	}
	files, err := os.ReadDir(dir)
	for _, file := range files {
		fmt.Println(file.Name())
	}
	fmt.Println(err)
	// Output:
	// accuracy.csv
	// accuracy.png
	// accuracy.svg
	// <nil>
}
