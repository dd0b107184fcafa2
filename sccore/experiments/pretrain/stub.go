// Package pretrain stands in for the experiment until it is moved.
package pretrain

import (
	"path/filepath"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's.
const Name = "pretrain"

// Config is what one run of the experiment is made from.
type Config struct {
	Init   string                `json:"init"`
	First  sccore.Config         `json:"first"`
	Second sccore.Config         `json:"second"`
	Images int                   `json:"images"`
	Size   int                   `json:"size"`
	Probe  evaluation.PatchProbe `json:"probe"`
	KNN    evaluation.KNN        `json:"knn"`
}

// The experiment's rows.
const (
	RowRandom    = "random init"
	RowInit      = "initialisation"
	RowAlignment = "alignment"
	RowMethod    = "full method"
)

// ProfileConfig is the configuration of a profile.
func ProfileConfig(profile study.Profile) Config {
	return Config{Second: sccore.Default()}
}

// EncoderFile is the file of the encoder that a recorded run left.
func EncoderFile(out string, r study.Record, stage string) string {
	return filepath.Join(study.Folder(out, Name), filepath.FromSlash(filepath.Dir(filepath.Dir(r.Curve))), stage, "online.safetensors")
}
