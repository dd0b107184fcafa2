package figures

import (
	"math"
	"strings"
	"testing"
)

func TestTradeOff(t *testing.T) {
	f := TradeOff{Title: "The lines between two tasks", X: "k-NN accuracy (%)", Y: "mIoU (%)", Lines: []TradeOffLine{
		{Name: "1", X: Cell{Paper: 74.6, Ours: []float64{60, 62, 61}}, Y: Cell{Paper: 40.1, Ours: []float64{40, 41, 42}}},
		{Name: "2", X: Cell{Paper: 52.1, Ours: []float64{50, 49, 52}}, Y: Cell{Paper: 47.2, Ours: []float64{46, 44, 45}}},
		{Name: "3", X: Cell{Paper: math.NaN()}, Y: Cell{Paper: 46.6}},
	}}
	svg, _ := picture(t, f)
	for _, want := range []string{"k-NN accuracy (%)", "mIoU (%)", "paper", "ours"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if lines := strings.Split(strings.TrimSpace(f.CSV()), "\n"); len(lines) != 7 || lines[1] != "1,k-NN accuracy (%),74.6,61,1,3,60 62 61" || !strings.HasSuffix(lines[5], ",,,,0,") {
		t.Errorf("CSV:\n%s", f.CSV())
	}
	if _, _, err := (TradeOff{}).Render(); err != nil {
		t.Errorf("without lines: %v", err)
	}
}
