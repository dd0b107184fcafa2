package encoders

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// Config is the part that all configurations of cells share; they embed it.
type Config struct {
	Encoder Encoder `json:"encoder"`
}

// OmitPaths omits the path of the encoder's file.
func (c *Config) OmitPaths() { c.Encoder.Weights = "" }

func (c *Config) encoder() *Encoder { return &c.Encoder }

// encoderOf returns the encoder of a configuration that embeds [Config].
func encoderOf[C any](config *C) *Encoder {
	return any(config).(interface{ encoder() *Encoder }).encoder()
}

// Encoder says where a cell's encoder comes from. It is part of configurations.
type Encoder struct {
	Row          string `json:"row"`
	Architecture string `json:"architecture"` // Empty for weights that --set names.
	Weights      string `json:"weights"`      // The file; empty for random weights.
	Digest       string `json:"digest"`       // The first 16 hexadecimal digits of the file's SHA-256.
	// Patterns of the keys in the file that are left out, with spaces between them, as weights.ReadViT takes them.
	Ignore string `json:"ignore,omitzero"`
	// What --set changed in the training by the experiment pretrain, with commas between the settings.
	Changed string `json:"changed,omitzero"`
}

// read reads the file, which must hold all weights of the row's architecture.
func (e Encoder) read() (*weights.Import, error) {
	read, err := weights.ReadViT(e.Weights, encoder.ViT{}, "", strings.Fields(e.Ignore)...)
	if err != nil {
		return nil, err
	}
	if len(read.Missing) > 0 {
		return nil, fmt.Errorf("%s: weights of the filter are missing, first %s", e.Weights, read.Missing[0])
	}
	size := "-" + strings.Split(read.ViT.Name, "-")[1] // Without the parts of later transformers.
	if titles[e.Row] == "" && !strings.HasSuffix(e.Row, size) {
		return nil, fmt.Errorf("%s: holds %s, which does not fit row %s", e.Weights, read.ViT.Name, e.Row)
	}
	return read, nil
}

// Load returns the encoder with its weights at the store's root. Without a file, the seed draws the weights.
func (e Encoder) Load(seed int) (encoder.ViT, *model.Store, error) {
	if e.Weights == "" {
		return evaluation.RandomViT(e.Architecture, seed)
	}
	read, err := e.read()
	if err != nil {
		return encoder.ViT{}, nil, err
	}
	store := model.NewStore()
	return read.ViT, store, read.Apply(store, "/")
}

// Open loads the encoder, ready to run on a backend. Close it.
func (e Encoder) Open(b compute.Backend, seed int) (*evaluation.Encoder, error) {
	vit, store, err := e.Load(seed)
	if err != nil {
		return nil, err
	}
	frozen, err := evaluation.NewFeatureExtractor(b, vit, store, "/", evaluation.EncodeBatch)
	if err != nil {
		store.Finalize()
		return nil, err
	}
	return &evaluation.Encoder{FeatureExtractor: frozen, Seed: uint64(seed), Owned: store}, nil
}

// Describe names an encoder as the notes of a table do, and says where it computes in half precision.
func Describe(vit encoder.ViT) string {
	if vit.ComputeDType.IsHalfPrecision() {
		return vit.Name + " in " + strings.ToLower(vit.ComputeDType.String())
	}
	return vit.Name
}

// randomArchitecture is the architecture of encoders with random weights in a profile.
func randomArchitecture(profile study.Profile) string {
	if profile == study.Full {
		return "vit-s16"
	}
	return "vit-tiny"
}
