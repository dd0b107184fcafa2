package settings_test

import (
	"fmt"

	"github.com/semcon/semcon/sccore/settings"
)

func ExampleApply() {
	type knn struct {
		K int `json:"k"`
	}
	type configuration struct {
		Rate float64 `json:"rate"`
		KNN  knn     `json:"knn"`
	}
	before := configuration{Rate: 0.1, KNN: knn{K: 200}}
	after := before
	fmt.Println(settings.Apply(&after, "knn.k=20"), after)
	fmt.Println(settings.Changed("", before, after))
	fmt.Println(settings.Apply(&after, "speed=3"))
	// Output:
	// <nil> {0.1 {20}}
	// [knn.k=20] <nil>
	// --set speed=3: no key "speed"; the keys are knn, rate
}
