package figures

import (
	"image"
	"image/color"
	"image/draw"
	"math"
	"slices"

	"github.com/lucasb-eyer/go-colorful"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/rle"
	xdraw "golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// painted is an image of which each pixel is painted alone.
func painted(width, height int, colour func(x, y int) color.RGBA) *image.RGBA {
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			picture.SetRGBA(x, y, colour(x, y))
		}
	}
	return picture
}

// NewImage makes an image of pixels in [0, 1], [height, width, 3] of red, green and blue.
func NewImage(pixels []float32, height, width int) image.Image {
	return painted(width, height, func(x, y int) color.RGBA {
		p := pixels[3*(y*width+x):]
		return color.RGBA{uint8(p[0]*255 + 0.5), uint8(p[1]*255 + 0.5), uint8(p[2]*255 + 0.5), 255}
	})
}

// Resized brings a picture to a width and a height in pixels, smoothly or without mixing its colours.
func Resized(picture image.Image, width, height int, smooth bool) *image.RGBA {
	small := image.NewRGBA(image.Rect(0, 0, width, height))
	scaler := lo.Ternary[xdraw.Scaler](smooth, xdraw.CatmullRom, xdraw.NearestNeighbor)
	scaler.Scale(small, small.Rect, picture, picture.Bounds(), xdraw.Src, nil)
	return small
}

// Fitted brings a picture's longer side to a length in pixels: photographs smoothly, maps without mixing their colours.
func Fitted(picture image.Image, side int, smooth bool) image.Image {
	size := picture.Bounds().Size()
	longer := max(size.X, size.Y)
	return Resized(picture, max(1, size.X*side/longer), max(1, size.Y*side/longer), smooth && longer > side)
}

// enlarge repeats each pixel scale times in both directions.
func enlarge(picture image.Image, scale int) *image.RGBA {
	size := picture.Bounds().Size().Mul(scale)
	return Resized(picture, size.X, size.Y, false)
}

// classColours begin with a dark colour, since class 0 is often the background. The colours of Okabe and Ito follow, which colour-blind people can tell apart.
var classColours = []color.RGBA{
	{0x28, 0x28, 0x32, 0xFF}, {0xE6, 0x9F, 0x00, 0xFF}, {0x56, 0xB4, 0xE9, 0xFF}, {0x00, 0x9E, 0x73, 0xFF}, {0xF0, 0xE4, 0x42, 0xFF}, {0x00, 0x72, 0xB2, 0xFF},
	{0xD5, 0x5E, 0x00, 0xFF}, {0xCC, 0x79, 0xA7, 0xFF},
}

// ClassColour is the colour of a class in maps and legends. From the ninth on, hues are as far apart as possible, at three lightnesses.
func ClassColour(class uint8) color.RGBA {
	switch {
	case class == datasets.Ignore:
		return missingColour
	case int(class) < len(classColours):
		return classColours[class]
	}
	hue := math.Mod(float64(class)*(math.Sqrt(5)-1)/2, 1)
	red, green, blue := colorful.Hsl(360*hue, 0.6, []float64{0.45, 0.65, 0.3}[class%3]).RGB255()
	return color.RGBA{red, green, blue, 0xFF}
}

// ClassMap paints classes in their colours, row by row with width pixels per row.
func ClassMap(classes []uint8, width int) image.Image {
	return painted(width, len(classes)/width, func(x, y int) color.RGBA { return ClassColour(classes[y*width+x]) })
}

// Segmented is an image with its true and predicted classes.
type Segmented struct {
	Image     *datasets.SegmentedImage
	Predicted []uint8 // [Height, Width]
	// Colours are those of the dataset's authors, by class, as datasets.Segmentation.Colours returns them; nil for [ClassColour].
	Colours color.Palette
}

// colour is the colour of a class. Ignored pixels are grey in every figure.
func (s Segmented) colour(class uint8) color.RGBA {
	if s.Colours == nil || class == datasets.Ignore {
		return ClassColour(class)
	}
	return color.RGBAModel.Convert(s.Colours[class]).(color.RGBA)
}

// SegmentationGrid shows predictions below images and truth, one column an image, with a legend of the classes that occur in the first one's colours.
func SegmentationGrid(title string, predictions []Segmented, classes []string) ImageGrid {
	return ComparedSegmentations(title, []string{"prediction"}, [][]Segmented{predictions}, classes)
}

// ComparedSegmentations is [SegmentationGrid] with a row for each of several models, which names call and which predict classes of the same images.
func ComparedSegmentations(title string, names []string, models [][]Segmented, classes []string) ImageGrid {
	const side = 168 // The longer side of a picture.
	sheet := ImageGrid{Title: title, RowLabels: append([]string{"image", "truth"}, names...), Images: make([][]image.Image, 2+len(names)), Scale: 1}
	occurs := map[uint8]bool{}
	draw := func(row int, p Segmented, classes []uint8) {
		drawn := painted(p.Image.Width, p.Image.Height, func(x, y int) color.RGBA {
			class := classes[y*p.Image.Width+x]
			occurs[class] = true
			return p.colour(class)
		})
		sheet.Images[row] = append(sheet.Images[row], Fitted(drawn, side, false))
	}
	for _, p := range models[0] {
		sheet.Images[0] = append(sheet.Images[0], Fitted(p.Image.Image(), side, true))
		draw(1, p, p.Image.Mask)
	}
	for i, predictions := range models {
		for _, p := range predictions {
			draw(2+i, p, p.Predicted)
		}
	}
	sheet.Legend = lo.FilterMap(classes, func(name string, class int) (ColourName, bool) {
		return ColourName{models[0][0].colour(uint8(class)), name}, occurs[uint8(class)]
	})
	if occurs[datasets.Ignore] {
		sheet.Legend = append(sheet.Legend, ColourName{Colour: ClassColour(datasets.Ignore), Name: "ignored"})
	}
	return sheet
}

// Overlay draws a frame with each object tinted in its own colour, from Okabe and Ito's colours, which colour-blind people can tell apart.
func Overlay(pixels, labels []uint8, height, width int) image.Image {
	tints := []color.RGBA{{230, 159, 0, 255}, {86, 180, 233, 255}, {0, 158, 115, 255}, {240, 228, 66, 255}, {204, 121, 167, 255}, {213, 94, 0, 255}}
	const shown = 190 // Pixels of the width in a sheet.
	return Resized(painted(width, height, func(x, y int) color.RGBA {
		p := y*width + x
		ink := color.RGBA{pixels[3*p], pixels[3*p+1], pixels[3*p+2], 255}
		if labels[p] > 0 {
			return mixed(ink, tints[int(labels[p]-1)%len(tints)], 2, 3)
		}
		return ink
	}), shown, max(1, height*shown/width), true)
}

// mixed is the mean of two colours with weights.
func mixed(a, b color.RGBA, weightA, weightB int) color.RGBA {
	mean := func(a, b uint8) uint8 { return uint8((weightA*int(a) + weightB*int(b)) / (weightA + weightB)) }
	return color.RGBA{mean(a.R, b.R), mean(a.G, b.G), mean(a.B, b.B), 255}
}

// Paled is a picture half way to white, on which boxes are seen.
func Paled(picture image.Image) image.Image {
	bounds := picture.Bounds()
	return painted(bounds.Dx(), bounds.Dy(), func(x, y int) color.RGBA {
		ink := color.RGBAModel.Convert(picture.At(bounds.Min.X+x, bounds.Min.Y+y)).(color.RGBA)
		return mixed(ink, color.RGBA{255, 255, 255, 255}, 1, 1)
	})
}

// HeatImage paints values, row by row with this many columns, as squares of an image in pixels: the lowest dark, the highest pale, NaN grey.
func HeatImage(values []float64, columns, height, width int) image.Image {
	finite := lo.Filter(values, func(v float64, _ int) bool { return isFinite(v) })
	return heat(values, lo.Min(finite), lo.Max(finite), columns, height, width) // 0 without any.
}

// CosineImage is [HeatImage] of cosines, on one scale in all pictures: 0 and less are dark, 1 is pale. [CosineLegend] names the colours.
func CosineImage(cosines []float64, columns, height, width int) image.Image {
	return heat(cosines, 0, 1, columns, height, width)
}

// CosineLegend names colours of [CosineImage].
func CosineLegend() []ColourName {
	names := []string{"cosine 0 or less", "0.25", "0.5", "0.75", "1"}
	return lo.Map(names, func(name string, i int) ColourName { return ColourName{colourAt(float64(i) / 4), name} })
}

// heat paints values from low, dark, to high, pale.
func heat(values []float64, low, high float64, columns, height, width int) image.Image {
	rows := len(values) / columns
	return painted(width, height, func(x, y int) color.RGBA {
		value := values[y*rows/height*columns+x*columns/width]
		if !isFinite(value) {
			return missingColour
		}
		return colourAt((value - low) / max(high-low, math.SmallestNonzeroFloat64))
	})
}

// Box is a rectangle in shares of an image's height and width.
type Box struct{ Top, Left, Height, Width float64 }

// DrawBoxes returns a copy of an image, enlarged by a whole factor, with boxes drawn on it in the colours of a figure's series.
func DrawBoxes(picture image.Image, enlargement int, boxes ...Box) image.Image {
	drawn := enlarge(picture, enlargement)
	size := drawn.Bounds().Size()
	for i, box := range boxes {
		at := func(share float64, of int) int { return min(max(int(math.Round(share*float64(of))), 0), of) }
		corners := image.Rect(at(box.Left, size.X), at(box.Top, size.Y), at(box.Left+box.Width, size.X), at(box.Top+box.Height, size.Y))
		frame(drawn, corners, look(i).colour(), 2)
	}
	return drawn
}

// frame draws the inner edge of a box.
func frame(picture *image.RGBA, box image.Rectangle, colour color.Color, thick int) {
	ink := image.NewUniform(colour)
	for _, side := range []image.Rectangle{
		image.Rect(box.Min.X, box.Min.Y, box.Max.X, box.Min.Y+thick), image.Rect(box.Min.X, box.Max.Y-thick, box.Max.X, box.Max.Y),
		image.Rect(box.Min.X, box.Min.Y, box.Min.X+thick, box.Max.Y), image.Rect(box.Max.X-thick, box.Min.Y, box.Max.X, box.Max.Y),
	} {
		draw.Draw(picture, side, ink, image.Point{}, draw.Src)
	}
}

// Object is an object to draw on an image.
type Object struct {
	Box   [4]float64 // x1, y1, x2, y2 in pixels.
	Mask  rle.Mask   // Of the image's size; the zero value for none.
	Class int        // Its colour is [ClassColour] of the next class, because the first colour is for backgrounds.
	Label string     // In ASCII; empty for none.
}

// DrawObjects draws objects on an image that is enlarged by a whole factor, the first one on top: the mask as a tint, the box, and the label at its corner.
func DrawObjects(picture image.Image, objects []Object, scale int) *image.RGBA {
	drawn := enlarge(picture, scale)
	size := drawn.Rect.Size()
	thick := lo.Ternary(size.X > 300, 2, 1)
	for _, object := range slices.Backward(objects) {
		colour := ClassColour(uint8((object.Class + 1) % int(datasets.Ignore)))
		if height, width := object.Mask.Size(); height > 0 && height*scale == size.Y && width*scale == size.X {
			inside, below := object.Mask.Pixels(), drawn
			drawn = painted(size.X, size.Y, func(x, y int) color.RGBA {
				if inside[y/scale*width+x/scale] {
					return mixed(below.RGBAAt(x, y), colour, 1, 1)
				}
				return below.RGBAAt(x, y)
			})
		}
		at := func(v float64, length int) int { return min(max(int(math.Round(v*float64(scale))), 0), length-1) }
		box := image.Rect(at(object.Box[0], size.X), at(object.Box[1], size.Y), at(object.Box[2], size.X), at(object.Box[3], size.Y))
		frame(drawn, image.Rectangle{Min: box.Min, Max: box.Max.Add(image.Pt(1, 1))}, colour, thick) // The far edges belong to the box.
		label(drawn, box.Min, object.Label, colour)
	}
	return drawn
}

// Labelled returns a picture above rows of names on grounds of their colours.
func Labelled(picture image.Image, names []string, colours []color.RGBA) *image.RGBA {
	size := picture.Bounds().Size()
	height, corners := basicfont.Face7x13.Height, make([]image.Point, len(names))
	at := image.Pt(0, size.Y)
	for i, name := range names {
		width := labelWidth(name)
		if at.X > 0 && at.X+width > size.X {
			at = image.Pt(0, at.Y+height)
		}
		corners[i], at.X = at, at.X+width
	}
	drawn := image.NewRGBA(image.Rect(0, 0, size.X, at.Y+height))
	draw.Draw(drawn, drawn.Rect, picture, picture.Bounds().Min, draw.Src)
	for i, name := range names {
		label(drawn, corners[i], name, colours[i])
	}
	return drawn
}

// labelWidth is the width of a label in pixels.
func labelWidth(text string) int { return font.MeasureString(basicfont.Face7x13, text).Ceil() + 2 }

// label writes a text on a ground of the colour, within the picture.
func label(picture *image.RGBA, corner image.Point, text string, colour color.RGBA) {
	if text == "" {
		return
	}
	face := basicfont.Face7x13
	width := labelWidth(text)
	left, top := max(0, min(corner.X, picture.Rect.Dx()-width)), max(0, min(corner.Y, picture.Rect.Dy()-face.Height))
	draw.Draw(picture, image.Rect(left, top, left+width, top+face.Height), image.NewUniform(colour), image.Point{}, draw.Src)
	ink := lo.Ternary(3*int(colour.R)+6*int(colour.G)+int(colour.B) < 1275, color.White, color.Black) // Half of white.
	drawer := font.Drawer{Dst: picture, Src: image.NewUniform(ink), Face: face, Dot: fixed.P(left+1, top+face.Ascent)}
	drawer.DrawString(text)
}
