// Package plural writes numbers of things in English. In go a number and a noun, out come both, the noun in the plural where it must be.
package plural

import (
	"fmt"
	"strings"
)

// Count returns a number with its noun, given in the singular: "1 image", "3 classes".
func Count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "ch") && !strings.HasSuffix(noun, "epoch"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
