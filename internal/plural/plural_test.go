package plural

import "testing"

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"1 image": Count(1, "image"), "0 images": Count(0, "image"), "2 images": Count(2, "image"), "1 class": Count(1, "class"), "3 classes": Count(3, "class"),
		"5 patches": Count(5, "patch"), "2 epochs": Count(2, "epoch"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
