// Package spelling finds the name that a mistyped one means.
package spelling

import "strings"

// DidYouMean asks for the name that a mistyped one most likely means: ": did you mean NAME?". It returns "" if none is near: at most a third of the letters are to
// be changed, and at least one may be, or three letters or more begin the name.
func DidYouMean(typed string, names []string) string {
	near, least := "", max(len(typed)/3, 1)+1
	for _, name := range names {
		if d := Distance(strings.ToLower(typed), name); d < least {
			near, least = name, d
		}
	}
	for _, name := range names {
		if near == "" && len(strings.TrimLeft(typed, "-")) > 2 && strings.HasPrefix(name, typed) {
			near = name
		}
	}
	if near == "" {
		return ""
	}
	return ": did you mean " + near + "?"
}

// Distance is the least number of letters to insert, remove, replace or swap with the next one that turns a into b.
func Distance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				d[i][j] = j
				continue
			}
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
