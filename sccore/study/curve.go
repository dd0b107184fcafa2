package study

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/semcon/semcon/internal/atomicfile"
)

// Point is one line of a run's curve file. It holds nothing that depends on the machine's speed, so that the curve of a resumed run equals that of an
// uninterrupted one, byte for byte.
type Point struct {
	Step         int     `json:"step"`
	Epoch        float64 `json:"epoch"`
	Loss         float64 `json:"loss"` // Mean over the epoch that ends here.
	LearningRate float64 `json:"learning_rate"`
	// Evaluated reports whether the fields below were measured at this step.
	Evaluated     bool    `json:"evaluated"`
	KNN           float64 `json:"knn"`            // Accuracy on the test images, %.
	MIoU          float64 `json:"miou,omitempty"` // Linear probe of patch features, %.
	FeatureStd    float64 `json:"feature_std"`
	EffectiveRank float64 `json:"effective_rank"`
	// Within and Between are the variance of patch features within and between classes, see metrics.ClassSpread; 0 without labels.
	Within  float64 `json:"within,omitempty"`
	Between float64 `json:"between,omitempty"`
}

// ReadCurve reads a curve file, which holds one line of JSON per point.
func ReadCurve[P any](path string) (points []P, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	for decoder.More() {
		var p P
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		points = append(points, p)
	}
	return points, nil
}

// WriteCurve replaces a curve file.
func WriteCurve[P any](path string, points []P) error {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	for _, p := range points {
		if err := encoder.Encode(p); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return atomicfile.WriteBytes(path, content.Bytes())
}
