package recipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/metrics"
)

// Correspondences say how well S_t tells pairs of patches of one class: "precision_top1" to "precision_top10", in percent, beside "precision_top100", which scores
// without any sense would have, and "auc"; and the same over pairs of two objects, as "objects_auc". What no pair gives is missing.
func Correspondences(d sccore.Diagnostics) map[string]float64 {
	said := map[string]float64{}
	for prefix, pairs := range map[string]sccore.Pairs{"": d.Pairs, "objects_": d.Objects} {
		if len(pairs.Scores) == 0 {
			continue
		}
		shares := append([]float64{1}, sccore.TopShares...)
		for i, precision := range metrics.PrecisionAtTop(pairs.Scores, pairs.Same, shares...) {
			said[fmt.Sprintf("%sprecision_top%g", prefix, 100*shares[i])] = precision
		}
		if auc, err := stats.AUC(pairs.Scores, pairs.Same); err == nil { // Without pairs of one class there is none.
			said[prefix+"auc"] = auc
		}
	}
	return said
}

// gateFile holds the correspondences that a stage with CoTAP began with, in its folder.
const gateFile = "correspondences.json"

// measureGate measures the correspondences of a stage with patch concentration that has just begun, on images with labels, prints them and writes them to its folder.
func (t *Trainer) measureGate(ctx context.Context, s Stage, dir string, say func(format string, args ...any)) error {
	if s.Config.Lambdas.PatchConcentration == 0 {
		return nil
	}
	d, err := t.Diagnostics(ctx)
	if err != nil || d.Precision == nil {
		return err
	}
	said := Correspondences(d)
	if chance, paired := said["objects_precision_top100"]; paired {
		said["gate"] = said["objects_precision_top5"] / max(chance, 1e-9) // 0 without pairs of one class.
	}
	say("%s: correspondences at the start: AUC %.3f, of objects %.3f; precision at the top 1, 5, 10 and 100 %% of objects %.0f, %.0f, %.0f and %.0f %%", s.Name, said["auc"],
		said["objects_auc"], said["objects_precision_top1"], said["objects_precision_top5"], said["objects_precision_top10"], said["objects_precision_top100"])
	content, err := json.Marshal(said)
	return errors.Join(err, atomicfile.WriteBytes(filepath.Join(dir, gateFile), content))
}

// AddGate adds to the details of a record the correspondences that the stage in a folder began with, if it has patch concentration and images with labels.
func AddGate(dir string, details map[string]float64) error {
	content, err := os.ReadFile(filepath.Join(dir, gateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	said := map[string]float64{}
	if err == nil {
		err = json.Unmarshal(content, &said)
	}
	for name, value := range said {
		details["start_"+name] = value // Of them [study.DetailGate].
	}
	return err
}
