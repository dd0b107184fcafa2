// Package plural writes numbers of things in English. In go a number and a noun, out come both, the noun in the plural where it must be.
package plural
