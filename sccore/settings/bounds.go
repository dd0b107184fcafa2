package settings

import (
	"fmt"
	"math"
)

// MaxBytes is the most that one array may take whose size follows from settings. Larger ones are slips of the finger, and would end the process.
const MaxBytes = 2 << 30

// MaxDeviceBytes is the same for arrays within a compiled step, which a GPU may hold.
const MaxDeviceBytes = 16 << 30

// MaxImageSize is the largest height and width of images in pixels that an encoder sees.
const MaxImageSize = 2048

// Between returns an error that names a setting, unless low ≤ value ≤ high. It is for bounds that follow from other settings; others are tags, see
// [Check]. NaN is out of range.
func Between[N int | float64](name string, value, low, high N) error {
	return allowed{intervals: []interval{{low: float64(low), high: float64(high)}}}.number(name, float64(value))
}

// Above returns an error that names a setting, unless 0 < value ≤ high.
func Above(name string, value, high float64) error {
	return allowed{intervals: []interval{{high: high, openLow: true}}}.number(name, value)
}

// Fit returns an error if the product of factors, the bytes of an array, exceeds most. what names the settings behind it with their values.
func Fit(most int, what string, factors ...int) error {
	bytes := 1.0
	for _, factor := range factors {
		bytes *= math.Max(0, float64(factor))
	}
	if bytes > float64(most) {
		return fmt.Errorf("%s: an array of %.3g GiB, more than %d", what, bytes/(1<<30), most>>30)
	}
	return nil
}
