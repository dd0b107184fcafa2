package settings

import (
	"fmt"
	"math"
	"strconv"
)

// MaxBytes is the most that one array may take whose size follows from settings. Larger ones are slips of the finger, and would end the process.
const MaxBytes = 2 << 30

// MaxDeviceBytes is the same for arrays within a compiled step, which a GPU may hold.
const MaxDeviceBytes = 16 << 30

// MaxImageSize is the largest height and width of images in pixels that an encoder sees.
const MaxImageSize = 2048

// Between returns an error that names a setting, unless low ≤ value ≤ high. NaN is out of range.
func Between[N int | float64](name string, value, low, high N) error {
	if !(low <= value && value <= high) {
		return fmt.Errorf("%s %s is not between %s and %s", name, text(value), text(low), text(high))
	}
	return nil
}

// text writes whole numbers with all digits, as users set them.
func text[N int | float64](value N) string {
	if whole := int64(value); N(whole) == value && math.Abs(float64(value)) < 1e15 {
		return strconv.FormatInt(whole, 10)
	}
	return fmt.Sprint(value)
}

// Above returns an error that names a setting, unless 0 < value ≤ high.
func Above(name string, value, high float64) error {
	if !(0 < value && value <= high) {
		return fmt.Errorf("%s %v is not above 0 and at most %v", name, value, high)
	}
	return nil
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
