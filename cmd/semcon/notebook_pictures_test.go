package main

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestPicturesOfCommittedNotebooksAreSmall(t *testing.T) {
	encoded := func(at func(x, y int) color.Color) string {
		picture := image.NewRGBA(image.Rect(0, 0, 200, 100))
		for y := range 100 {
			for x := range 200 {
				picture.Set(x, y, at(x, y))
			}
		}
		var file bytes.Buffer
		if err := png.Encode(&file, picture); err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(file.Bytes())
	}
	random := rand.New(rand.NewPCG(1, 0))
	plot := encoded(func(x, y int) color.Color { return color.Gray{uint8(255 - 3*(x*y%20))} })
	photograph := encoded(func(x, y int) color.Color {
		return color.RGBA{uint8(x + random.IntN(9)), uint8(2*y + random.IntN(9)), uint8(x/2 + random.IntN(9)), 255}
	})
	heat := encoded(func(x, y int) color.Color { return color.Gray{uint8(50 * (x / 50))} })
	outputs := []any{
		map[string]any{"data": map[string]any{typePNG: plot, typeSVG: "<svg/>"}},
		map[string]any{"data": map[string]any{typePNG: photograph}},
		map[string]any{"data": map[string]any{typePNG: heat}},
		map[string]any{"data": map[string]any{typePNG: "no picture"}},
		map[string]any{"text": "loss 1"},
		map[string]any{"data": map[string]any{typeHTML: []any{"<p>before</p>\n", `<img src="data:image/png;base64,` + strings.ReplaceAll(photograph, "+", "&#43;") + `"><img src="data:image/png;base64,` + heat + `">`}}},
	}
	smallPictures(outputs)
	data := func(i int) map[string]any { return outputs[i].(map[string]any)["data"].(map[string]any) }
	read := func(text any) image.Image {
		t.Helper()
		content, err := base64.StdEncoding.DecodeString(text.(string))
		if err != nil {
			t.Fatal(err)
		}
		picture, _, err := image.Decode(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		return picture
	}
	if _, both := data(0)[typeSVG]; both || len(data(0)[typePNG].(string)) > len(plot)*3/4 {
		t.Errorf("the plot has %d of %d bytes, SVG %t", len(data(0)[typePNG].(string)), len(plot), both)
	}
	before, after := read(plot), read(data(0)[typePNG])
	for y := range 100 {
		for x := range 200 {
			want, got := color.GrayModel.Convert(before.At(x, y)).(color.Gray).Y, color.GrayModel.Convert(after.At(x, y)).(color.Gray).Y
			if max(want, got)-min(want, got) > 9 {
				t.Fatalf("place %d, %d was %d and is %d", x, y, want, got)
			}
		}
	}
	if _, still := data(1)[typePNG]; still {
		t.Error("the photograph is a PNG")
	} else if picture := read(data(1)[typeJPEG]); picture.Bounds() != image.Rect(0, 0, 200, 100) {
		t.Errorf("the photograph is %v", picture.Bounds())
	}
	page := data(5)[typeHTML].([]any)
	picture, rest, found := strings.Cut(strings.TrimPrefix(page[1].(string), `<img src="data:image/jpeg;base64,`), `"`)
	if !found || page[0] != "<p>before</p>\n" || read(picture).Bounds() != image.Rect(0, 0, 200, 100) || rest != `><img src="data:image/png;base64,`+heat+`">` {
		t.Errorf("the page is %.300s", page)
	}
	if data(2)[typePNG] != heat || data(3)[typePNG] != "no picture" {
		t.Error("a flat picture, or text that is not a picture, has changed")
	}
}
