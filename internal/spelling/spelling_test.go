package spelling

import "testing"

func TestDidYouMean(t *testing.T) {
	names := []string{"epochs", "epoch_images", "rate", "knn", "video", "main"}
	for typed, want := range map[string]string{
		"epoch": "epochs", "Rate": "rate", "knnn": "knn", "viedo": "video", "vidoe": "video", "mian": "main", "rte": "rate", "vid": "video", "--vid": "", "vi": "", "speed": "", "": "", "x": "",
	} {
		if want != "" {
			want = ": did you mean " + want + "?"
		}
		if got := DidYouMean(typed, names); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}
