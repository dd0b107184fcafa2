package metrics_test

import (
	"fmt"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
)

// One object, and two detections: one that covers three quarters of it, and one beside it with a lower score.
func ExampleEvaluateCOCO() {
	truth, err := datasets.ReadInstances(strings.NewReader(`{
		"images": [{"id": 1, "height": 80, "width": 100}],
		"categories": [{"id": 1, "name": "cat"}],
		"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 20, 40, 40], "area": 1600, "iscrowd": 0}]}`), "truth.json")
	if err != nil {
		panic(err)
	}
	detections := []metrics.Detection{
		{Image: 1, Category: 1, Score: 0.9, Box: &[4]float64{10, 20, 40, 30}},
		{Image: 1, Category: 1, Score: 0.4, Box: &[4]float64{60, 20, 40, 30}},
	}
	result, err := metrics.EvaluateCOCO(truth, detections, metrics.Boxes)
	if err != nil {
		panic(err)
	}
	fmt.Printf("AP %.2f, AP50 %.2f, AR100 %.2f, AP of small objects %.0f\n", result.AP, result.AP50, result.AR100, result.APSmall)
	// Output: AP 0.60, AP50 1.00, AR100 0.60, AP of small objects -1
}

func ExampleReadDetections() {
	truth, err := datasets.ReadInstances(strings.NewReader(`{
		"images": [{"id": 1, "height": 2, "width": 3}], "categories": [{"id": 1, "name": "cat"}], "annotations": []}`), "truth.json")
	if err != nil {
		panic(err)
	}
	detections, err := metrics.ReadDetections(strings.NewReader(
		`[{"image_id": 1, "category_id": 1, "score": 0.5, "segmentation": {"size": [2, 3], "counts": "2111"}}]`), "results.json", truth)
	fmt.Println(detections[0].Score, detections[0].Box, detections[0].Mask.Area(), err)
	_, err = metrics.ReadDetections(strings.NewReader(`[{"image_id": 2, "category_id": 1, "score": 0.5, "bbox": [0, 0, 1, 1]}]`), "results.json", truth)
	fmt.Println(err)
	// Output:
	// 0.5 <nil> 3 <nil>
	// results.json: detection 0: truth.json has no image 2
}
