package ownimages_test

import (
	"fmt"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/ownimages"
)

// Show draws what weights see in images.
func ExampleShow() {
	b, err := backend.Open()
	if err != nil {
		panic(err)
	}
	const weights = "runs/photos/encoder.safetensors"
	viewer, err := ownimages.NewViewer(b, weights, []string{"dog.jpg", "park.jpg"}, 224)
	if err != nil {
		panic(err)
	}
	drawn, err := ownimages.Show(viewer, weights)
	if err != nil {
		panic(err)
	}
	for _, f := range drawn {
		fmt.Println(f.Name, figures.SaveAs(f.Name+".svg", f.Figure))
	}
}
