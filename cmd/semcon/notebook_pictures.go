package main

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strings"
)

// Types of the pictures in a notebook's outputs.
const (
	typePNG  = "image/png"
	typeJPEG = "image/jpeg"
	typeSVG  = "image/svg+xml"
)

// smallPictures makes the pictures in a cell's outputs small, since those of all notebooks are committed, and each time they change. A plot, which has both forms,
// stays as a PNG of few colours. A PNG of pixels becomes a JPEG if that saves a third. Pictures that cannot be read stay as they are.
func smallPictures(outputs any) {
	list, _ := outputs.([]any)
	for _, output := range list {
		output, _ := output.(map[string]any)
		data, _ := output["data"].(map[string]any)
		text, ok := data[typePNG].(string)
		if !ok {
			continue
		}
		stored, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
		if err != nil {
			continue
		}
		picture, err := png.Decode(bytes.NewReader(stored))
		if err != nil {
			continue
		}
		var small bytes.Buffer
		if _, plot := data[typeSVG]; plot {
			delete(data, typeSVG)
			if few := fewColours(picture); few != nil && (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, few) == nil && small.Len() < len(stored) {
				data[typePNG] = base64.StdEncoding.EncodeToString(small.Bytes())
			}
		} else if jpeg.Encode(&small, picture, &jpeg.Options{Quality: 65}) == nil && 3*small.Len() < 2*len(stored) {
			delete(data, typePNG)
			data[typeJPEG] = base64.StdEncoding.EncodeToString(small.Bytes())
		}
	}
}

// fewColours rounds the colours of an opaque picture to 16 levels a channel, which shows in no line or letter, and returns nil if more than 256 are left.
func fewColours(picture image.Image) *image.Paletted {
	few := image.NewPaletted(picture.Bounds(), nil)
	places := map[color.RGBA]uint8{}
	for y := few.Rect.Min.Y; y < few.Rect.Max.Y; y++ {
		for x := few.Rect.Min.X; x < few.Rect.Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			level := func(v uint32) uint8 { return uint8((v*15+0x7fff)/0xffff) * 17 }
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
