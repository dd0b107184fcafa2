package study

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/semcon/semcon/internal/atomicfile"
)

// Point is one moment of a run: a line of its curve file. It holds nothing that depends on the machine's speed, so that a resumed run's
// curve equals an uninterrupted one's, byte for byte.
type Point struct {
	Step         int     `json:"step"`
	Epoch        float64 `json:"epoch"`
	Loss         float64 `json:"loss"` // Mean over the epoch that ends here.
	LearningRate float64 `json:"learning_rate"`
	// Evaluated tells whether the fields below were measured here.
	Evaluated     bool    `json:"evaluated"`
	KNN           float64 `json:"knn"`            // Accuracy on the test images, %.
	MIoU          float64 `json:"miou,omitempty"` // Of a linear probe of patch features, %.
	FeatureStd    float64 `json:"feature_std"`
	EffectiveRank float64 `json:"effective_rank"`
	// Within and Between are the spread of patch features within and between classes, see metrics.ClassSpread; 0 without labels.
	Within  float64 `json:"within,omitempty"`
	Between float64 `json:"between,omitempty"`
}

// ReadCurve reads a curve file: a line of JSON for each point.
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
