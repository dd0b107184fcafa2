package finetune

import "math"

// hues is the number of hues in 8-bit HSV: one for every two degrees.
const hues = 180

// hsvBits is the number of binary digits of the reciprocals in these tables, as in OpenCV.
const hsvBits = 12

var saturationOver, hueOver = func() (saturation, hue [256]int) {
	for i := 1; i < 256; i++ {
		saturation[i] = int(math.RoundToEven(255 << hsvBits / float64(i)))
		hue[i] = int(math.RoundToEven(hues << hsvBits / (6 * float64(i))))
	}
	return saturation, hue
}()

// toHSV returns hue, 0 to 179, saturation and value of an RGB colour. It computes as cv2.cvtColor with COLOR_RGB2HSV, to the last bit for every colour.
func toHSV(p [3]uint8) (h, s, v uint8) {
	r, g, b := int(p[0]), int(p[1]), int(p[2])
	value := max(r, g, b)
	chroma := value - min(r, g, b)
	hue := 0
	switch value {
	case r:
		hue = g - b
	case g:
		hue = b - r + 2*chroma
	default:
		hue = r - g + 4*chroma
	}
	const half = 1 << (hsvBits - 1)
	if hue = (hue*hueOver[chroma] + half) >> hsvBits; hue < 0 {
		hue += hues
	}
	return uint8(hue), uint8((chroma*saturationOver[value] + half) >> hsvBits), uint8(value)
}

// fromHSV returns the RGB colour of hue, below 180, saturation and value. It computes as cv2.cvtColor with COLOR_HSV2RGB, to the last bit for every colour,
// on processors with fused multiplication and addition. OpenCV rounds down there, but rounds to the nearest in the last few pixels of a row that are fewer than a
// vector register takes; here all pixels are rounded down.
func fromHSV(h, s, v uint8) [3]uint8 {
	hue := float32(h) * (6.0 / hues)
	sector := int(hue)
	hue -= float32(sector)
	saturation, value := float32(float32(s)*(1.0/255)), float32(float32(v)*(1.0/255))
	fused := func(share float32) float32 { return float32(1 - float64(saturation)*float64(share)) } // The product is exact.
	level := func(factor float32) uint8 { return uint8(float32(float32(value*factor) * 255)) }
	full, low, falling, rising := level(1), level(1-saturation), level(fused(hue)), level(fused(1-hue))
	switch sector {
	case 0:
		return [3]uint8{full, rising, low}
	case 1:
		return [3]uint8{falling, full, low}
	case 2:
		return [3]uint8{low, full, rising}
	case 3:
		return [3]uint8{low, falling, full}
	case 4:
		return [3]uint8{rising, low, full}
	}
	return [3]uint8{full, low, falling}
}
