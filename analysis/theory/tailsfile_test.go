package theory

import (
	"math"
	"os"
	"path/filepath"
	"slices"
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
		if err != nil || !same(back, curves) {
			t.Errorf("read back: %v, %v, want %v", back, err, curves)
		}
	})
}

// same says that two sets of curves are equal; NaN equals NaN.
func same(a, b TailCurves) bool {
	for i, column := range a.columns() {
		if !slices.EqualFunc(*column, *b.columns()[i], func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) }) {
			return false
		}
	}
	return true
}

func TestReadTails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tails.csv")
	write := func(lines ...string) {
		content := strings.Join(append([]string{"views,form,threshold,p_T,q_T,mean p,mean q"}, lines...), "\n")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("own,backbone,0,0.1,0.2,0.3,0.4", "crops,backbone,0,7,7,7,7", "own,centred,0,8,8,8,8", "own,backbone,0.5,NaN,0.6,0.7,+Inf", "own,backbone,1,1,0.75,0.5,1e-09")
	want := TailCurves{Thresholds: []float64{0, 0.5, 1}, View: []float64{0.1, math.NaN(), 1}, Class: []float64{0.2, 0.6, 0.75},
		MeanView: []float64{0.3, 0.7, 0.5}, MeanClass: []float64{0.4, math.Inf(1), 1e-9}}
	if got, err := ReadTails(path, "own", BackboneForm); err != nil || !same(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	text := &TailsFile{}
	text.Add("own", BackboneForm, want)
	const lines = "own,backbone,0,0.1,0.2,0.3,0.4\nown,backbone,0.5,NaN,0.6,0.7,+Inf\nown,backbone,1,1,0.75,0.5,1e-09\n"
	if got := string(text.Bytes()); got != strings.Join(tailsHeader, ",")+"\n"+lines {
		t.Errorf("wrote %s", got)
	}
	refused := func(want string) {
		t.Helper()
		if _, err := ReadTails(path, "own", BackboneForm); err == nil || !strings.Contains(err.Error(), path+": "+want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	write("crops,backbone,0,0,0,0,0")
	refused(`no curve of views "own" in form "backbone"`)
	write("own,backbone,0,0,0,0,0", "own,backbone,1,0,x,0,0")
	refused("record 3: ")
}
