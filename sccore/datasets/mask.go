package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
)

// Ignore is the class of pixels that training and metrics leave out: unannotated pixels and void borders.
const Ignore uint8 = 255

// ids holds the numbers in an annotation file, row-major.
type ids struct {
	height, width int
	of            []uint32
}

// decodeIDs reads a mask: a PNG with a palette or in grey, of 1 to 16 bits.
func decodeIDs(file []byte) (ids, error) {
	picture, err := storedMask(file)
	if err != nil {
		return ids{}, err
	}
	bounds := picture.Bounds()
	out := ids{bounds.Dy(), bounds.Dx(), make([]uint32, 0, bounds.Dx()*bounds.Dy())}
	switch p := picture.(type) {
	case *image.Paletted:
		for y := range out.height {
			for _, v := range p.Pix[y*p.Stride:][:out.width] {
				out.of = append(out.of, uint32(v))
			}
		}
	case *image.Gray:
		// The decoder spreads fewer than 8 bits over all 256 greys.
		const depthAt = 24 // Position of the bit depth in the header.
		step := uint32(1)
		if depth := file[depthAt]; depth < 8 {
			step = 255 / (1<<depth - 1)
		}
		for y := range out.height {
			for _, v := range p.Pix[y*p.Stride:][:out.width] {
				out.of = append(out.of, uint32(v)/step)
			}
		}
	case *image.Gray16:
		for y := range out.height {
			for x := range out.width {
				out.of = append(out.of, uint32(p.Gray16At(x, y).Y))
			}
		}
	default:
		return ids{}, errors.New("is a colour PNG, want class ids in grey or with a palette")
	}
	return out, nil
}

// decodeSegments reads a panoptic mask: an RGB PNG whose pixels are segment ids, red + 256·green + 65536·blue.
func decodeSegments(file []byte) (ids, error) {
	picture, err := storedMask(file)
	if err != nil {
		return ids{}, err
	}
	p, ok := picture.(*image.RGBA)
	if !ok {
		return ids{}, errors.New("is not an RGB PNG of segment ids")
	}
	bounds := p.Bounds()
	out := ids{bounds.Dy(), bounds.Dx(), make([]uint32, 0, bounds.Dx()*bounds.Dy())}
	for y := range out.height {
		for x := range out.width {
			var c color.RGBA = p.RGBAAt(x, y)
			out.of = append(out.of, uint32(c.R)|uint32(c.G)<<8|uint32(c.B)<<16)
		}
	}
	return out, nil
}

// storedMask decodes a PNG. It refuses lossy formats, which change ids.
func storedMask(file []byte) (image.Image, error) {
	if !bytes.HasPrefix(file, []byte("\x89PNG")) {
		return nil, errors.New("is not a PNG")
	}
	return stored(file)
}

// classes maps ids to classes. The error for an unknown id names the pixel.
func (m ids) classes(classOf func(id uint32) (class uint8, known bool)) ([]uint8, error) {
	out := make([]uint8, len(m.of))
	for p, id := range m.of {
		class, known := classOf(id)
		if !known {
			return nil, fmt.Errorf("pixel (%d, %d) has id %d, which the dataset does not have", p%m.width, p/m.width, id)
		}
		out[p] = class
	}
	return out, nil
}
