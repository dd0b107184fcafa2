package main

import (
	"bytes"
	"encoding/base64"
	"html"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"regexp"
	"strings"
)

// Types of the pictures in a notebook's outputs.
const (
	typePNG  = "image/png"
	typeJPEG = "image/jpeg"
	typeSVG  = "image/svg+xml"
	typeHTML = "text/html"
)

// jpegQuality is legible in the letters of a picture at half the size of the usual 75.
const jpegQuality = 60

// embedded is a PNG inside a page, as the report of a training has it: in base64 with characters escaped.
var embedded = regexp.MustCompile(`data:image/png;base64,[A-Za-z0-9+/=&#;]+`)

// smallPictures makes the pictures in a cell's outputs small, since those of all notebooks are committed, and each time they change. A plot, which has both forms,
// stays as a PNG of few colours. A PNG of pixels becomes a JPEG if that saves a third, also inside a page. Pictures that cannot be read stay as they are.
func smallPictures(outputs any) {
	list, _ := outputs.([]any)
	for _, output := range list {
		output, _ := output.(map[string]any)
		data, _ := output["data"].(map[string]any)
		lines, _ := data[typeHTML].([]any) // Jupyter stores text as lines.
		for i := range lines {
			lines[i] = smallPage(lines[i])
		}
		text, ok := data[typePNG].(string)
		if !ok {
			continue
		}
		if _, plot := data[typeSVG]; plot {
			delete(data, typeSVG)
			if small, ok := asFewColours(text); ok {
				data[typePNG] = small
			}
		} else if small, ok := asJPEG(text); ok {
			delete(data, typePNG)
			data[typeJPEG] = small
		}
	}
}

// smallPage makes the pictures in a line of a page small.
func smallPage(line any) any {
	text, ok := line.(string)
	if !ok {
		return line
	}
	return embedded.ReplaceAllStringFunc(text, func(picture string) string {
		_, stored, _ := strings.Cut(picture, ",")
		if small, ok := asJPEG(html.UnescapeString(stored)); ok {
			return "data:" + typeJPEG + ";base64," + html.EscapeString(small)
		}
		return picture
	})
}

// asJPEG returns a PNG in base64 as a JPEG in base64, and false if it cannot be read or would not be a third smaller.
func asJPEG(text string) (string, bool) {
	picture, size := decodePNG(text)
	var small bytes.Buffer
	if picture == nil || jpeg.Encode(&small, picture, &jpeg.Options{Quality: jpegQuality}) != nil || 3*small.Len() >= 2*size {
		return "", false
	}
	return base64.StdEncoding.EncodeToString(small.Bytes()), true
}

// asFewColours returns a PNG in base64 with few colours, and false if it cannot be read, has too many, or would not be smaller.
func asFewColours(text string) (string, bool) {
	picture, size := decodePNG(text)
	if picture == nil {
		return "", false
	}
	few := fewColours(picture, 16)
	if few == nil { // Translucent points have many shades.
		few = fewColours(picture, 8)
	}
	var small bytes.Buffer
	if few == nil || (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, few) != nil || small.Len() >= size {
		return "", false
	}
	return base64.StdEncoding.EncodeToString(small.Bytes()), true
}

// decodePNG returns the picture in base64 and the bytes of its file; nil if it cannot be read.
func decodePNG(text string) (image.Image, int) {
	stored, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
	if err != nil {
		return nil, 0
	}
	picture, err := png.Decode(bytes.NewReader(stored))
	if err != nil {
		return nil, 0
	}
	return picture, len(stored)
}

// fewColours rounds the colours of an opaque picture to some levels a channel, and returns nil if more than 256 colours are left. 16 levels show in no line or letter.
func fewColours(picture image.Image, levels uint32) *image.Paletted {
	few := image.NewPaletted(picture.Bounds(), nil)
	places := map[color.RGBA]uint8{}
	for y := few.Rect.Min.Y; y < few.Rect.Max.Y; y++ {
		for x := few.Rect.Min.X; x < few.Rect.Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			level := func(v uint32) uint8 { return uint8((v*(levels-1) + 0x7fff) / 0xffff * 255 / (levels - 1)) }
			c := color.RGBA{level(r), level(g), level(b), 255}
			place, ok := places[c]
			if !ok {
				if len(places) == 256 {
					return nil
				}
				place = uint8(len(places))
				places[c], few.Palette = place, append(few.Palette, c)
			}
			few.SetColorIndex(x, y, place)
		}
	}
	return few
}
