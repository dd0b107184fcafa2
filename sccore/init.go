package sccore

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/weights"
)

// EncoderOf returns the encoder in a file that [Trainer.BeginFrom] takes, without its weights. The error names the file.
func EncoderOf(path string, ignore ...string) (encoder.ViT, error) {
	if strings.HasSuffix(path, ".safetensors") {
		metadata, err := weights.ReadMetadata(path)
		if err != nil {
			return encoder.ViT{}, err
		}
		if metadata["position"] != "" {
			config := Default()
			if err := json.Unmarshal([]byte(metadata["config"]), &config); err != nil {
				return encoder.ViT{}, fmt.Errorf("%s: configuration of the run: %w", path, err)
			}
			v, err := encoder.ViTByName(config.Encoder)
			if err != nil {
				return v, fmt.Errorf("%s: configuration of the run: %w", path, err)
			}
			v.Positions = config.Positions
			return v, v.Check()
		}
	}
	return weights.Identify(path, "", ignore...)
}

// Adapt returns the configuration with another encoder, and the nearest sizes of views that are made of its patches: views of 96 pixels become 98 for
// patches of 14.
func (c Config) Adapt(v encoder.ViT) Config {
	c.Encoder, c.Positions = v.Name, v.Positions
	c.Views.GlobalCropSize = Nearest(c.Views.GlobalCropSize, v.PatchSize)
	c.Views.LocalCropSize = Nearest(c.Views.LocalCropSize, v.PatchSize)
	return c
}

// Nearest returns the multiple of patch, at least 1, that is nearest to a size. Of two it is the larger one.
func Nearest(size, patch int) int { return max((size+patch/2)/patch, 1) * patch }
