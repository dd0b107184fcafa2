package metrics_test

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
)

var cocoGolden = flag.String("cocoap", "testdata/cocoap.json", "the file of TestEvaluateCOCOGolden, which testdata/cocoap.py writes")

// TestEvaluateCOCOGolden compares all numbers of drawn sets with pycocotools.
func TestEvaluateCOCOGolden(t *testing.T) {
	raw, err := os.ReadFile(*cocoGolden)
	if err != nil {
		t.Fatal(err)
	}
	var sets []struct {
		Digest       string
		Boxes, Masks *[12]float64
	}
	if err := json.Unmarshal(raw, &sets); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for seed, set := range sets {
		truthText, detectionsText := drawCOCOSet(t, seed)
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(truthText+"\n"+detectionsText)))[:8]; got != set.Digest {
			t.Fatalf("set %d is not the one of the script: digest %s, want %s\n%s\n%s", seed, got, set.Digest, truthText, detectionsText)
		}
		truth, detections := readCOCO(t, truthText, detectionsText)
		if truth.SkippedCount > 0 {
			t.Fatalf("set %d: skipped %v", seed, truth.Skipped)
		}
		for kind, want := range map[metrics.COCOKind]*[12]float64{metrics.Boxes: set.Boxes, metrics.Masks: set.Masks} {
			got, err := metrics.EvaluateCOCO(truth, detections, kind)
			if want == nil {
				if err == nil && len(truth.Annotations) > 0 {
					t.Errorf("set %d: masks are compared without any", seed)
				}
				continue
			}
			if err != nil {
				t.Fatalf("set %d: %v", seed, err)
			}
			for i, v := range got.Numbers() {
				if compared++; !(math.Abs(v-want[i]) <= 1e-12) || math.IsNaN(v) {
					t.Errorf("set %d, %s, number %d: %g, pycocotools has %g", seed, kind, i, v, want[i])
				}
			}
		}
	}
	if compared < 4000 {
		t.Errorf("only %d numbers", compared)
	}
	t.Logf("%d numbers of %d sets agree to 1e-12", compared, len(sets))
}

func readCOCO(t testing.TB, truthText, detectionsText string) (*datasets.Instances, []metrics.Detection) {
	t.Helper()
	truth, err := datasets.ReadInstances(strings.NewReader(truthText), "truth.json")
	if err != nil {
		t.Fatal(err)
	}
	detections, err := metrics.ReadDetections(strings.NewReader(detectionsText), "detections.json", truth)
	if err != nil {
		t.Fatal(err)
	}
	return truth, detections
}
