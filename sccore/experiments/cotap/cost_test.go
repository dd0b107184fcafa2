package cotap

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestMeasureCoTAP(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		costs, err := MeasureCoTAP(b, []int{100, 400})
		if err != nil {
			t.Fatal(err)
		}
		ways := map[string]int{}
		for _, cost := range costs {
			ways[cost.Way]++
			if cost.CPU <= 0 {
				t.Errorf("%+v took no time", cost)
			}
		}
		if len(costs) != 6 || ways["host"] != 2 || ways["graph"] != 2 || ways["brute force"] != 2 {
			t.Errorf("measured %v", ways)
		}
		if _, _, err := CoTAPCostCurves(costs).Render(); err != nil {
			t.Error(err)
		}
	})
}
