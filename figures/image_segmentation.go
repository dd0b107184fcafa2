package figures

import (
	"image"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"golang.org/x/image/draw"
)

// Segmented is an image with its true and predicted classes.
type Segmented struct {
	Image     *datasets.SegmentedImage
	Predicted []uint8 // [Height, Width]
}

// sheetSide is the longer side of a picture in [SegmentationGrid].
const sheetSide = 168

// SegmentationGrid shows predictions below their images and the truth, one column an image, with a legend of the classes that occur.
func SegmentationGrid(title string, predictions []Segmented, classes []string) ImageGrid {
	sheet := ImageGrid{Title: title, RowLabels: []string{"image", "truth", "prediction"}, Images: make([][]image.Image, 3), Scale: 1}
	occurs := map[uint8]bool{}
	for _, p := range predictions {
		for _, class := range slices.Concat(p.Image.Mask, p.Predicted) {
			occurs[class] = true
		}
		for i, picture := range []image.Image{p.Image.Image(), ClassMap(p.Image.Mask, p.Image.Width), ClassMap(p.Predicted, p.Image.Width)} {
			sheet.Images[i] = append(sheet.Images[i], Fitted(picture, sheetSide, i == 0))
		}
	}
	for class, name := range classes {
		if occurs[uint8(class)] {
			sheet.Legend = append(sheet.Legend, ColourName{Colour: ClassColour(uint8(class)), Name: name})
		}
	}
	if occurs[datasets.Ignore] {
		sheet.Legend = append(sheet.Legend, ColourName{Colour: ClassColour(datasets.Ignore), Name: "ignored"})
	}
	return sheet
}

// Fitted brings a picture's longer side to a length in pixels: photographs smoothly, maps without mixing their colours.
func Fitted(picture image.Image, side int, smooth bool) image.Image {
	size := picture.Bounds().Size()
	longer := max(size.X, size.Y)
	return Resized(picture, max(1, size.X*side/longer), max(1, size.Y*side/longer), smooth && longer > side)
}

// Resized brings a picture to a width and a height in pixels, smoothly or without mixing its colours.
func Resized(picture image.Image, width, height int, smooth bool) image.Image {
	small := image.NewRGBA(image.Rect(0, 0, width, height))
	var scaler draw.Scaler = draw.NearestNeighbor
	if smooth {
		scaler = draw.CatmullRom
	}
	scaler.Scale(small, small.Rect, picture, picture.Bounds(), draw.Src, nil)
	return small
}
