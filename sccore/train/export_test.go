package train

import (
	"regexp"
	"testing"
)

// DescribeProductsOtherwise has no product recognised until the test ends.
func DescribeProductsOtherwise(t *testing.T) {
	a, b := contracted, outputChannel
	t.Cleanup(func() { contracted, outputChannel = a, b })
	contracted, outputChannel = regexp.MustCompile(`$^`), regexp.MustCompile(`$^`)
}
