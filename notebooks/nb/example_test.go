package nb_test

import (
	"fmt"

	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/notebooks/nb"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
)

// A cell of a notebook: it draws a figure from records. An error ends the cell in one line.
func ExampleShow() {
	results := must.M1(pretrain.Study.Load(nb.Options(pretrain.Study)))
	fmt.Println(len(results.Columns()), "columns")
}
