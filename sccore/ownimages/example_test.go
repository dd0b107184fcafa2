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
	drawn, err := ownimages.Show(b, "runs/photos/encoder.safetensors", []string{"dog.jpg", "park.jpg"}, 224)
	if err != nil {
		panic(err)
	}
	for _, f := range drawn {
		fmt.Println(f.Name, figures.SaveAs(f.Name+".svg", f.Figure))
	}
}
