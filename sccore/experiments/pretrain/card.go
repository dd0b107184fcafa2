package pretrain

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// writeCard writes the model card of the encoder in a stage's folder: its run, data and settings, and the numbers that are recorded of it.
func writeCard(r *run, dir string, vit encoder.ViT, numbers []study.Number) error {
	var measured []string
	for _, n := range numbers {
		measured = append(measured, strings.TrimSpace(fmt.Sprintf("%s %.4g %s", n.Metric, n.Value, n.Unit))+" ("+n.Protocol+")")
	}
	return weights.Card{
		ViT: vit, Preprocessing: datasets.DefaultPreprocessing(), Size: r.Cell.Config.Size,
		Facts: []weights.Fact{
			{Name: "Trained by", Text: fmt.Sprintf("experiment %s, run %s, profile %s, stage %s, online branch", Name, r.Cell.Name(), r.Options().Profile, filepath.Base(dir))},
			{Name: "Data", Text: r.Data.Identity()},
			{Name: "Record", Text: strings.Join(measured, "; ")},
			{Name: "Settings", Text: string(study.EncodeConfig(r.Cell.Config))},
		},
	}.Write(filepath.Join(dir, recipe.OnlineFile))
}
