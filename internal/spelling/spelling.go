// Package spelling finds the name that a mistyped one means.
package spelling

import (
	"strings"

	"github.com/hbollon/go-edlib"
	"github.com/samber/lo"
)

// DidYouMean asks for the name that a mistyped one most likely means: ": did you mean NAME?". It returns "" if none is near: at most a third of the letters are to
// be changed, and at least one may be, or three letters or more begin the name.
func DidYouMean(typed string, names []string) string {
	near, least := "", max(len(typed)/3, 1)+1
	for _, name := range names {
		if d := edlib.OSADamerauLevenshteinDistance(strings.ToLower(typed), name); d < least {
			near, least = name, d
		}
	}
	for _, name := range names {
		if near == "" && len(strings.TrimLeft(typed, "-")) > 2 && strings.HasPrefix(name, typed) {
			near = name
		}
	}
	return lo.Ternary(near == "", "", ": did you mean "+near+"?")
}
