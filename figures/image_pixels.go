package figures

import "image"

// NewImage makes an image of pixels in [0, 1], [height, width, 3] of red, green and blue.
func NewImage(pixels []float32, height, width int) image.Image {
	im := image.NewRGBA(image.Rect(0, 0, width, height))
	for p := range height * width {
		for channel := range 3 {
			im.Pix[4*p+channel] = uint8(pixels[3*p+channel]*255 + 0.5)
		}
		im.Pix[4*p+3] = 255
	}
	return im
}
