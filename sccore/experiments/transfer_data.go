package experiments

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/weights"
)

// transferSources open a split of each dataset, the paper's four in its order.
var transferSources = map[string]func(dir string, split datasets.Split) (*datasets.Segmented, error){
	"coco": datasets.COCOStuff27, "voc2012": datasets.VOC, "ade20k": datasets.ADE20k, "cityscapes": datasets.Cityscapes,
}

var transferDatasets = []string{"coco", "voc2012", "ade20k", "cityscapes", "synthetic"}

// presentDatasets are the datasets to run on: those in a data folder, or synthetic scenes without one. missing says what is not there.
func presentDatasets(profile Profile, dir string) (present, missing []string, err error) {
	if dir == "" || profile == Smoke {
		if profile == Full {
			return nil, nil, errors.New("the full profile needs --data DIR with COCO, PASCAL VOC, ADE20k or Cityscapes (\"semcon data\" says what is there)")
		}
		return []string{"synthetic"}, nil, nil
	}
	for _, name := range transferDatasets {
		open, ok := transferSources[name]
		if !ok {
			continue
		}
		for _, split := range []datasets.Split{datasets.Train, datasets.Test} {
			if _, err = open(dir, split); err != nil {
				break
			}
		}
		switch {
		case err == nil:
			present = append(present, name)
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, err.Error())
		default:
			return nil, nil, err
		}
	}
	if len(present) == 0 {
		return nil, nil, fmt.Errorf("none of COCO, PASCAL VOC, ADE20k and Cityscapes is in %s (\"semcon data\" says what is wanted)", dir)
	}
	return present, missing, nil
}

// transferData is a dataset to train and test heads on.
type transferData struct {
	train, test         *datasets.Segmented
	trained, held, seen []int // Training images that train and that choose the rate, and test images.
}

func (d transferData) identity() string { return d.train.Identity + "; " + d.test.Identity }

// openTransferData opens a dataset for a configuration. Synthetic scenes are others than those that encoders are pretrained on.
func openTransferData(dir, dataset string, c TransferConfig) (d transferData, err error) {
	if open, ok := transferSources[dataset]; ok {
		if d.train, err = open(dir, datasets.Train); err != nil {
			return d, err
		}
		if d.test, err = open(dir, datasets.Test); err != nil {
			return d, err
		}
	} else {
		if c.Images < 2 {
			return d, fmt.Errorf("images %d: at least 2 synthetic ones are wanted", c.Images)
		}
		d.train, d.test = datasets.SegmentedScenes(c.Images, 64, 12), datasets.SegmentedScenes(c.Images, 64, 14)
	}
	d.seen = spread(d.test.Len(), c.Images)
	all := spread(d.train.Len(), c.Images)
	every := max(2, len(all)/c.Holdout)
	for i, image := range all {
		if i%every == every-1 {
			d.held = append(d.held, image)
		} else {
			d.trained = append(d.trained, image)
		}
	}
	if len(d.held) == 0 { // Of a single image.
		d.held = d.trained
	}
	return d, nil
}

// spread are most of n places, evenly spread; all if most is 0 or there are fewer.
func spread(n, most int) (places []int) {
	if most == 0 || most > n {
		most = n
	}
	for i := range most {
		places = append(places, i*n/most)
	}
	return places
}

// encoderKey names the encoder of a row with a seed.
type encoderKey struct {
	row  string
	seed int
}

// transferEncoder is an encoder that the pretraining experiment left.
type transferEncoder struct {
	file string
	vit  encoder.ViT
}

// pretrained finds the encoders of the pretraining experiment's runs in a profile.
func pretrained(out string, profile Profile) (map[encoderKey]transferEncoder, error) {
	results, err := LoadPretrain(out, profile)
	if err != nil {
		return nil, err
	}
	found := map[encoderKey]transferEncoder{}
	for _, row := range transferRows {
		stage := map[string]string{rowFirst: "first", rowSecond: "second"}[row.name]
		for _, column := range []string{columnMIoU, columnRank} {
			for _, record := range results.runs[[2]string{row.name, column}] {
				file := PretrainedEncoder(out, record, stage)
				var config PretrainConfig
				if err := json.Unmarshal(record.Config, &config); err != nil {
					return nil, fmt.Errorf("the configuration of record %s: %w", record.Cell, err)
				}
				trained := config.Second
				if stage == "first" {
					trained = config.First
				}
				vit, err := encoder.ViTByName(trained.Encoder)
				if err != nil {
					return nil, err
				}
				if _, err := os.Stat(file); err == nil {
					vit.Prototypes = trained.Prototypes
					found[encoderKey{row.key, record.Seed}] = transferEncoder{file, vit}
				}
			}
		}
	}
	return found, nil
}

// vit is the transformer of a configuration.
func (c TransferConfig) vit() encoder.ViT {
	v, err := encoder.ViTByName(c.Encoder)
	if err != nil {
		panic(err) // check has seen to it.
	}
	v.Prototypes = c.Prototypes
	return v
}

// identity says what the encoder's weights are.
func (c transferCell) identity() (string, error) {
	if c.config.Weights == "" {
		return fmt.Sprintf("%s with %d prototypes drawn with seed %d", c.config.Encoder, c.config.Prototypes, c.seed), nil
	}
	file, err := os.Open(c.config.Weights)
	if err != nil {
		return "", err
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", fmt.Errorf("%s: %w", c.config.Weights, err)
	}
	return fmt.Sprintf("%s of sha256 %x", c.config.Encoder, digest.Sum(nil)[:8]), nil
}

// load sets the encoder's weights in a store.
func (c transferCell) load(store *model.Store) error {
	vit := c.config.vit()
	if c.config.Weights == "" {
		return drawEncoder(vit, store, uint64(c.seed))
	}
	read, err := weights.ReadViT(c.config.Weights, vit, "")
	if err != nil {
		return err
	}
	if len(read.Missing) > 0 {
		return fmt.Errorf("%s has no Object-Aware Filter: --set %s.prototypes=0", c.config.Weights, c.row.key)
	}
	if i := slices.IndexFunc(read.Unused, func(key string) bool { return strings.Contains(key, ".filter.") }); i >= 0 {
		return fmt.Errorf("%s has an Object-Aware Filter (%s): say of how many prototypes, --set %s.prototypes=64", c.config.Weights, read.Unused[i], c.row.key)
	}
	return read.Apply(store, "/")
}

// drawEncoder sets the weights to initial values of a seed, the same on every backend.
func drawEncoder(vit encoder.ViT, store *model.Store, seed uint64) error {
	host, err := backend.OpenConfig(backend.Go)
	if err != nil {
		return err
	}
	defer host.Finalize()
	drawn := model.NewStore()
	defer drawn.Finalize()
	if err := drawn.SetRNGStateFromSeed(int64(seed)); err != nil {
		return err
	}
	image := tensors.FromFlatDataAndDimensions(make([]float32, vit.Patch*vit.Patch*3), 1, vit.Patch, vit.Patch, 3)
	if _, err := model.ExecOnce(host, drawn, func(scope *model.Scope, x *Node) *Node { return vit.Tokens(scope, x).Class }, image); err != nil {
		return err
	}
	for _, weight := range vit.Weights() {
		value, err := drawn.GetVariable("/" + weight.Path).Value()
		if err != nil {
			return err
		}
		if value, err = value.LocalClone(); err != nil {
			return err
		}
		if v := store.GetVariable("/" + weight.Path); v != nil {
			err = v.SetValue(value)
		} else {
			_, err = store.CreateVariable("/"+weight.Path, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
