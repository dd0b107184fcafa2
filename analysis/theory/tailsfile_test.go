package theory

import (
	"strings"
	"testing"
)

func FuzzParseTails(f *testing.F) {
	text := &TailsFile{}
	text.Add("own", BackboneForm, TailCurves{Thresholds: []float64{0, 1}, View: []float64{0.5, 1}, Class: []float64{0.25, 1},
		MeanView: []float64{0, 1}, MeanClass: []float64{0.125, 1}})
	f.Add(text.Bytes())
	f.Add([]byte("views,form\n"))
	f.Add([]byte(strings.Join(tailsHeader, ",") + "\nown,backbone,x,0,0,0,0\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		curves, err := parseTails(content, "own", BackboneForm)
		if err != nil {
			return
		}
		again := &TailsFile{}
		again.Add("own", BackboneForm, curves)
		back, err := parseTails(again.Bytes(), "own", BackboneForm)
		if err != nil || len(back.Thresholds) != len(curves.Thresholds) {
			t.Errorf("read back: %v, %v", back, err)
		}
	})
}
