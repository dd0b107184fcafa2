package evaluation

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
)

// MeasureVideo reads the true masks of a video and compares the found ones, [Frames][Height·Width], with them: one measure an object.
func MeasureVideo(v datasets.Video, found [][]uint8) ([]metrics.JF, error) {
	objects, err := v.Objects()
	if err != nil {
		return nil, err
	}
	var truth [][]uint8
	for i := range v.Frames {
		mask, err := v.Mask(i)
		if err != nil {
			return nil, fmt.Errorf("video %s: %w", v.Name, err)
		}
		truth = append(truth, mask)
	}
	measured, err := metrics.EvaluateJF(truth, found, v.Height, v.Width, objects)
	if err != nil {
		return nil, fmt.Errorf("video %s: %w", v.Name, err)
	}
	return measured, nil
}
