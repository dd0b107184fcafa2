package cotap

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestMeasure(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		costs, err := Measure(b, []int{100, 400})
		if err != nil {
			t.Fatal(err)
		}
		measured := map[string]int{}
		for _, cost := range costs {
			measured[cost.Way]++
			if cost.CPU <= 0 {
				t.Errorf("%+v took no time", cost)
			}
		}
		if len(costs) != 6 || measured["host"] != 2 || measured["graph"] != 2 || measured["brute force"] != 2 {
			t.Errorf("measured %v", measured)
		}
		if _, _, err := figures.Render(Curves(costs)); err != nil {
			t.Error(err)
		}
	})
}
