package theory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/analysis"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/views"
	"gonum.org/v1/gonum/mat"
)

// runTheory measures the encoders of the augmentation study that are not measured yet, one after the other.
func runTheory(ctx context.Context, b compute.Backend, options Options) error {
	config, err := theoryConfig(options.Profile, options.Set)
	if err != nil {
		return BadOption{err}
	}
	trained, err := trainedEncoders(options)
	if err != nil {
		return err
	}
	sources, err := effectAugSources(options.Profile, options.Data)
	if err != nil {
		return err
	}
	study := &theoryStudy{backend: b, options: options, config: config, frozen: map[string]*methods.Frozen{}}
	defer study.close()
	for _, source := range sources {
		data, err := source.load()
		if err != nil {
			return err
		}
		study.data = append(study.data, data)
	}
	recorded, err := recordedOn(folderOf(options.Out, Theory))
	if err != nil {
		return err
	}
	bar := options.bar(fmt.Sprintf("%s (%s)", Theory, options.Profile), len(trained))
	defer bar.Close()
	for i, encoder := range trained {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		bar.Set(i, encoder.Cell)
		config := config
		config.Trained = encoder.ConfigHash
		if recorded[recordKey(encoder.Cell, hashOf(configJSON(config)), encoder.Data)] {
			continue
		}
		if err := study.measure(encoder, config); err != nil {
			return fmt.Errorf("%s: %w", encoder.Cell, err)
		}
	}
	bar.Set(len(trained), fmt.Sprintf("all %d encoders are measured", len(trained)))
	return nil
}

// trainedEncoders are the records of the augmentation study whose encoders are to be measured, in the order of the paper's table. Without any
// the error says how to get some.
func trainedEncoders(options Options) ([]Record, error) {
	results, err := LoadEffectAug(options.Out, options.Profile)
	if err != nil {
		return nil, err
	}
	patterns := options.Only
	if len(patterns) == 0 {
		patterns = []string{"*"}
	}
	var trained []Record
	for _, method := range methods.Names {
		for _, row := range EffectAugRows {
			for _, dataset := range results.Datasets() {
				for _, r := range results.runs[[2]string{row.Name, dataset + "/" + methodTitles[method]}] {
					matches := slices.ContainsFunc(patterns, func(pattern string) bool {
						parts := append(strings.Split(pattern, "/"), "*", "*", "*")[:4]
						ok, _ := path.Match(strings.Join(parts, "/"), r.Cell)
						return ok
					})
					if matches && (options.Seeds == 0 || r.Seed < options.Seeds) {
						trained = append(trained, r)
					}
				}
			}
		}
	}
	if len(trained) == 0 {
		return nil, fmt.Errorf("no trained encoder in %s in the %s profile; \"semcon run %s --profile %s\" trains some",
			folderOf(options.Out, EffectAug), options.Profile, EffectAug, options.Profile)
	}
	return trained, nil
}

// theoryStudy is what the encoders of one call share.
type theoryStudy struct {
	backend compute.Backend
	options Options
	config  TheoryConfig
	data    []effectAugData
	frozen  map[string]*methods.Frozen // By encoder name: compiled once.
}

func (s *theoryStudy) close() {
	for _, frozen := range s.frozen {
		frozen.Close()
	}
}

// measure records the quantities of one encoder: on the views that it was trained with, and on those of the row with all transformations.
func (s *theoryStudy) measure(trained Record, config TheoryConfig) error {
	begun := time.Now()
	at := slices.IndexFunc(s.data, func(d effectAugData) bool { return d.identity() == trained.Data })
	if at < 0 {
		return fmt.Errorf("trained on other data than --data gives: %s", trained.Data)
	}
	var settings EffectAugConfig
	if err := json.Unmarshal(trained.Config, &settings); err != nil {
		return fmt.Errorf("configuration of the record: %w", err)
	}
	encoder, err := s.encoder(settings.Encoder)
	if err != nil {
		return err
	}
	file := filepath.Join(folderOf(s.options.Out, EffectAug), filepath.FromSlash(path.Dir(trained.Curve)), weightsFile)
	if err := encoder.Load(file); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there: the encoder of this record is gone", file)
	} else if err != nil {
		return err
	}
	train := s.data[at].train
	images := train.Head(len(train.Classes) * min(config.Images, smallestClass(train)))
	dir := filepath.Join(folderOf(s.options.Out, Theory), "cells", filepath.FromSlash(trained.Cell)+"-"+hashOf(configJSON(config)))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	all := EffectAugRows[0].Recipe(settings.Recipe)
	details := map[string]float64{}
	tails := &tailsText{}
	for _, shown := range []struct {
		name   string
		recipe views.Recipe
	}{{OwnViews, settings.Recipe}, {CommonViews, all}} {
		flat, dim, err := encoder.Features(images, shown.recipe, uint64(trained.Seed))
		if err != nil {
			return err
		}
		for _, form := range theoryForms {
			f, err := labelled(flat, dim, images, config.Views, form)
			if err != nil {
				return err
			}
			values, curves, err := measureTheory(f, config.Thresholds)
			if err != nil {
				return err
			}
			for name, value := range values {
				details[shown.name+"."+form+"."+name] = value
			}
			tails.add(shown.name, form, curves)
		}
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, tailsFile), tails.bytes()); err != nil {
		return err
	}
	curve, err := filepath.Rel(folderOf(s.options.Out, Theory), filepath.Join(dir, tailsFile))
	if err != nil {
		return err
	}
	record := Record{
		Experiment: Theory, Cell: trained.Cell, Row: trained.Row, Column: trained.Column,
		Metric: "nearest-mean error", Unit: "%", Value: 100 * details[OwnViews+"."+formBackbone+".error"],
		Seed: trained.Seed, Profile: s.options.Profile, Config: configJSON(config), ConfigHash: hashOf(configJSON(config)),
		Protocol: "backbone features of " + strconv.Itoa(images.Len()) + " training images, the first of each class, " + strconv.Itoa(config.Views) +
			" views each; error of the nearest class mean on these views",
		Data: trained.Data, Details: details, Curve: filepath.ToSlash(curve), Skipped: []string{},
		Backend: backend.Name(), Versions: versions(), Seconds: time.Since(begun).Seconds(), Finished: time.Now().UTC().Truncate(time.Second),
	}
	record.Details["knn_accuracy"] = trained.Value / 100
	return record.Append(folderOf(s.options.Out, Theory))
}

// Which views the features are of.
const (
	// OwnViews are those that the encoder was trained with.
	OwnViews = "own"
	// CommonViews are those of the row with all transformations, the same for every encoder.
	CommonViews = "all"
)

func (s *theoryStudy) encoder(name string) (*methods.Frozen, error) {
	if s.frozen[name] == nil {
		frozen, err := methods.NewFrozen(s.backend, name, imageSize, s.config.Views)
		if err != nil {
			return nil, err
		}
		s.frozen[name] = frozen
	}
	return s.frozen[name], nil
}

// labelled makes Features of an encoder's output in a form.
func labelled(flat []float32, dim int, images *datasets.Images, views int, form string) (*analysis.Features, error) {
	count := len(flat) / dim
	rows := mat.NewDense(count, dim, nil)
	labels, numbers := make([]int, count), make([]int, count)
	for i := range count {
		for c := range dim {
			rows.Set(i, c, float64(flat[i*dim+c]))
		}
		labels[i], numbers[i] = int(images.Labels[i/views]), i/views
	}
	return analysis.NewFeatures(formed(rows, form, len(images.Classes)), labels, numbers, 1)
}

// smallestClass is the number of images of the class that has fewest.
func smallestClass(images *datasets.Images) int {
	counts := make([]int, len(images.Classes))
	for _, label := range images.Labels {
		counts[label]++
	}
	return slices.Min(counts)
}
