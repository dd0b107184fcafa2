package datasets

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// KeypointPair is two photographs of objects of one category with corresponding points.
type KeypointPair struct {
	Name, Category string
	Source, Target string // Paths of the images.

	SourcePoints, TargetPoints [][2]float64 // In pixels from the left and from the top, as many of each.
	TargetBox                  [4]float64   // The object in the target: left, top, right, bottom.
}

// SPair lists the pairs of a split of SPair-71k (Min et al. 2019) in its official layout: SPair-71k below dir, or dir itself, with JPEGImages/CATEGORY and
// PairAnnotation/trn or PairAnnotation/test. The error names the file.
func SPair(dir string, split Split) ([]KeypointPair, error) {
	if err := dataFolder("SPair-71k", dir); err != nil {
		return nil, err
	}
	name := map[Split]string{Train: "trn", Test: "test"}[split]
	if name == "" {
		return nil, fmt.Errorf("SPair-71k has no split %q, only %q and %q", split, Train, Test)
	}
	folder := filepath.Join(dir, "SPair-71k")
	if !exists(folder) {
		folder = dir
	}
	pairs := filepath.Join(folder, "PairAnnotation", name)
	files, err := filesIn(pairs, ".json")
	if err != nil {
		return nil, fmt.Errorf("no SPair-71k in %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: has no pairs", pairs)
	}
	var all []KeypointPair
	for _, file := range files {
		pair, err := readPair(folder, pairs, file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(pairs, file+".json"), err)
		}
		all = append(all, pair)
	}
	return all, nil
}

func readPair(folder, pairs, name string) (KeypointPair, error) {
	content, err := readFile(os.DirFS(pairs), name+".json")
	if err != nil {
		return KeypointPair{}, err
	}
	var read struct {
		Source   string       `json:"src_imname"`
		Target   string       `json:"trg_imname"`
		Category string       `json:"category"`
		From     [][2]float64 `json:"src_kps"`
		To       [][2]float64 `json:"trg_kps"`
		Box      []float64    `json:"trg_bndbox"`
	}
	if err := json.Unmarshal(content, &read); err != nil {
		return KeypointPair{}, fmt.Errorf("cannot be read: %.200w", err)
	}
	for _, part := range []string{read.Source, read.Target, read.Category} {
		if part == "" || filepath.Base(part) != part || part == "." || part == ".." {
			return KeypointPair{}, fmt.Errorf("%.80q is no name of an image or a category", part)
		}
	}
	switch {
	case len(read.From) == 0 || len(read.From) != len(read.To):
		return KeypointPair{}, fmt.Errorf("%d points in the source and %d in the target", len(read.From), len(read.To))
	case len(read.Box) != 4 || !(read.Box[2] > read.Box[0]) || !(read.Box[3] > read.Box[1]) || math.IsInf(read.Box[2]-read.Box[0], 0):
		return KeypointPair{}, fmt.Errorf("trg_bndbox %v is no box", read.Box)
	}
	images := filepath.Join(folder, "JPEGImages", read.Category)
	return KeypointPair{
		Name: name, Category: read.Category, Source: filepath.Join(images, read.Source), Target: filepath.Join(images, read.Target),
		SourcePoints: read.From, TargetPoints: read.To, TargetBox: [4]float64(read.Box),
	}, nil
}
