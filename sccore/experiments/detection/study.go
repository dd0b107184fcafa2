// Package detection is the experiment of object detection with full fine-tuning: Cascade Mask R-CNN on an encoder that is trained with it.
//
// In go COCO or synthetic scenes, and the encoders of package encoders. Out come records of COCO's AP of boxes and masks, the trained models, and Tab. obj_det
// and obj_det_full.
package detection

import (
	"context"
	"errors"
	"fmt"
	"image"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "detection"

const (
	cocoName    = "coco"         // COCO's name on the command line.
	resultsFile = "results.json" // The detections in the test images, in a cell's folder.
	sceneSize   = 64             // Side of synthetic scenes in pixels.
	boxes       = "boxes"        // The kinds of detections, which end the names of the records' columns.
	masks       = "masks"
)

var grid = encoders.Grid[Config]{Name: Name, Table: "obj_det"}

// Study is the experiment.
var Study = encoders.Tuning[Config, Data, finetune.DetectionTraining, *finetune.DetectionTrainer, finetune.DetectionStep]{
	Grid:    grid,
	Sources: encoders.Sources[Data]{Open: func(dir, _ string) (Data, error) { return read(dir) }},
	Parts:   []string{"dataset", "row", "seed"},
	Images:  open,
	Columns: func(d Data, _ Config) []string { return columns(d.Title()) },
	Unit:    "image",
	Amount:  func(c Config) (steps, batch int) { return c.Steps, c.Batch },
	Training: func(c Config, vit encoder.ViT, d Data) (finetune.DetectionTraining, error) {
		return c.training(vit, len(d.train.Truth.Categories)), nil
	},
	New: finetune.NewDetectionTrainer,
	Take: func(t *finetune.DetectionTrainer, r *study.Run[Config, Data], _ encoder.ViT, pretrained *model.Store) (done func(), err error) {
		t.Images, t.Pretrained = r.Data.trained, pretrained
		return func() {}, nil
	},
	Loss:   func(s finetune.DetectionStep) float64 { return s.Loss },
	Test:   test,
	Tables: tables,
	Figures: func(results study.Results, from study.FigureSources, all *study.Drawn) {
		ofBoxes := slices.DeleteFunc(results.Columns(), func(column string) bool { return !strings.HasSuffix(column, "/"+boxes) })
		caption := fmt.Sprintf("Test images with their objects, the best proposals, both stages, and detections with a score above %g.", leastDrawn)
		dataset := func(column string) string { return strings.TrimSuffix(column, "/"+boxes) }
		encoders.DrawEach(results, from, all, "obj_det", "stages", caption, ofBoxes, dataset, func(row, column, title string) (figures.Figure, error) {
			sheet, err := Stages(results, from.Backend, from.Data, from.Out, row, dataset(column), drawnImages)
			sheet.Title = title
			return sheet, err
		})
	},
}.Spec()

// Data is a dataset to train and test on.
type Data struct {
	study.Described // Annotations that cannot be used are skipped, each with its file and id.
	train, test     *datasets.ObjectImages
	trained, tested *datasets.ObjectImages // The images that train and test.
}

// read opens COCO below dir.
func read(dir string) (d Data, err error) {
	defer try.Handle(&err)
	d.train, d.test = try.E1(datasets.COCOObjects(dir, datasets.Train)), try.E1(datasets.COCOObjects(dir, datasets.Test))
	if !slices.Equal(d.train.Truth.Categories, d.test.Truth.Categories) {
		err = fmt.Errorf("%s and %s have different categories", d.train.Truth.Name, d.test.Truth.Name)
	}
	return d, err
}

// open opens a dataset for a configuration. Synthetic scenes are the same as in the experiments transfer and fine-tune.
func open(o study.Options, dataset string, c Config, seed int) (d Data, err error) {
	defer try.Handle(&err)
	switch {
	case dataset != encoders.Synthetic:
		d = try.E1(read(o.Data))
	case c.Images < 2:
		return d, fmt.Errorf("images %d: synthetic scenes need at least 2", c.Images)
	default:
		run := synthetic.Run(seed)
		d.train, d.test = run.Scenes(c.Images, sceneSize, 12).Instances(), run.Scenes(c.Images, sceneSize, 14).Instances()
	}
	skipped := slices.Concat(d.train.Truth.Skipped, d.test.Truth.Skipped)
	d.ID, d.Name = d.train.Identity+"; "+d.test.Identity, d.train.Name
	d.Unread = lo.Map(skipped, func(s datasets.Skipped, _ int) string { return s.File + ": " + s.Reason })
	d.trained = d.train.Annotated()
	if d.trained.Len() == 0 {
		return d, errors.New(d.train.Truth.Name + ": no image has an object")
	}
	d.trained, d.tested = d.trained.Pick(datasets.Spread(d.trained.Len(), c.Images)), d.test.Pick(datasets.Spread(d.test.Len(), c.Images))
	return d, nil
}

// columns are the records' columns for a dataset.
func columns(dataset string) []string { return []string{dataset + "/" + boxes, dataset + "/" + masks} }

// Config is the configuration of a cell. Images are tested at the largest scale of the augmentation.
type Config struct {
	encoders.Config

	Detector detection.Config `json:"detector" range:"-"` // Its classes are 0: the dataset decides.
	Objects  int              `json:"objects"`            // Places for the objects of a training image.
	MaskSize int              `json:"mask_size"`          // Height and width of the masks of objects in pixels.

	encoders.Tuned

	Augmentation finetune.DetectionTransform `json:"augmentation"`

	Images int `json:"images" range:"[0,2^20]"` // Images per split: drawn, or taken evenly spread from a real dataset, where 0 means all.
}

// Rules returns an error that names the first settings that do not fit together.
func (c Config) Rules() error {
	if c.Detector.Classes != 0 {
		return fmt.Errorf("detector.classes %d: the dataset decides on its classes", c.Detector.Classes)
	}
	// The cell's encoder is not open yet. This one has the patches of the smallest.
	any := encoder.ViT{PatchSize: 8, Dim: 4, Depth: 1, NumHeads: 1, GridSize: 1, Positions: encoder.DINOPositions}
	return settings.Check(c.training(any, 2))
}

// training is the configuration of the training for an encoder and a number of classes.
func (c Config) training(vit encoder.ViT, classes int) finetune.DetectionTraining {
	c.Detector.Classes = classes
	return finetune.DetectionTraining{
		Training: c.Training(), Detector: finetune.Detector{ViT: c.Precision(vit), Config: c.Detector},
		Transform: c.Augmentation, Objects: c.Objects, MaskSize: c.MaskSize,
	}
}

// Training is the configuration of a profile's training on a dataset of so many classes, of an encoder, with the assignments of --set.
func Training(profile study.Profile, dataset string, vit encoder.ViT, classes int, set ...string) (finetune.DetectionTraining, error) {
	c, err := grid.Config(profile, dataset, "", set)
	return c.training(vit, classes), err
}

// test measures AP of boxes and of masks, each with COCO's other numbers, and writes the detections and the model.
func test(
	t *finetune.DetectionTrainer, r *study.Run[Config, Data], config finetune.DetectionTraining, last finetune.DetectionStep,
) (numbers []study.Number, err error) {
	defer try.Handle(&err)
	r.Say("testing on %d images", r.Data.tested.Len())
	inference := config.Inference()
	tested := try.E1(inference.Evaluate(r.Context, r.Data.tested, t.Detect))
	if tested.Boxes.AP < 0 {
		return nil, errors.New("the test images show no object")
	}
	try.E(metrics.WriteDetections(filepath.Join(r.Dir, resultsFile), tested.Detections))
	description := finetune.DetectorDescription{Dataset: r.Data.Title(), Categories: r.Data.train.Truth.Categories, Inference: inference}
	try.E(t.Export(filepath.Join(r.Dir, encoders.Model), description, map[string]string{"cell": r.Cell.Name()}))
	for kind, result := range []metrics.COCOAP{tested.Boxes, tested.Masks} {
		kind := []string{boxes, masks}[kind]
		details := map[string]float64{"detections": float64(len(tested.Detections)), "loss": last.Loss}
		for i, value := range result.Numbers() {
			if value >= 0 { // Otherwise the truth has no such object.
				details[fmt.Sprintf(numberNames[i], kind[:1])] = 100 * value
			}
		}
		numbers = append(numbers, study.Number{Metric: "AP of " + kind, Unit: "%", Value: 100 * result.AP, Protocol: protocol(r, config), Details: details})
	}
	return numbers, nil
}

// numberNames are the names of COCO's numbers. For AP they are as in the paper's tables.
var numberNames = [12]string{
	"AP_%s", "AP_%s50", "AP_%s75", "AP_%ssmall", "AP_%smedium", "AP_%slarge", "AR_%s1", "AR_%s10", "AR_%s100", "AR_%ssmall", "AR_%smedium", "AR_%slarge",
}

// protocol says how a number is measured.
func protocol(r *study.Run[Config, Data], config finetune.DetectionTraining) string {
	c, a, d := r.Cell.Config, r.Cell.Config.Augmentation, config.Detector
	return fmt.Sprintf("%s and Cascade Mask R-CNN of %d channels on a simple feature pyramid, trained together; %d steps of %d images, shorter side %d to %d px and "+
		"longer side at most %d, half of them cropped before to %d to %d px, mirrored half of the time; %s; %d anchors and %d proposals an image in the losses, "+
		"batch statistics of %d images; %d test images of up to %d×%d px, scores above 0.05, NMS at 0.5 for each class, the best %d detections, masks pasted at "+
		"the image's size; COCO's AP",
		encoders.Describe(d.ViT), d.Channels, c.Steps, c.Batch, a.MinShort, a.MaxShort, a.Long, a.MinCrop, a.MaxCrop, c.Optimizer.Protocol(), d.AnchorSamples, d.BoxSamples,
		c.Batch/c.Parts, r.Data.tested.Len(), a.Long, a.MaxShort, d.Detections)
}

// tables returns the paper's two tables, and the numbers of the second one for each dataset and encoder that the paper does not have.
func tables(results study.Results) []figures.Table {
	coco := columns("COCO")
	var all []figures.Table
	for _, name := range []string{"obj_det", "obj_det_full"} {
		t := encoders.Beside(name, "Object detection and instance segmentation on COCO: AP of boxes (b) and of masks (m).",
			encoders.Details(coco, "", figures.MustPaper(name).Columns...)...)
		all = append(all, t.Of(results))
	}
	for _, dataset := range encoders.DatasetsOf(results.Columns()) {
		from := columns(dataset)
		ours := encoders.WithRecords(results, encoders.OurRows(results, "obj_det"), from...)
		if dataset != "COCO" {
			ours = append(ours, encoders.WithRecords(results, encoders.PaperRows("obj_det"), from...)...)
		}
		if len(ours) == 0 {
			continue
		}
		t := encoders.Alone("Tab. obj_det_full on "+dataset+", for encoders that the paper does not have",
			"AP of boxes (b) and of masks (m). Small, medium and large are by the area of an object, with limits of 32² and 96² pixels."+encoders.BothBegin,
			ours, encoders.Details(from, "", all[1].Columns...)...)
		t.RowHeads = []figures.RowHead{{Name: "encoder"}}
		all = append(all, t.Of(results))
	}
	return all
}

// What pictures show.
const (
	pictureSide   = 160 // Least length in pixels of the longer side of an image; small images are enlarged.
	leastDrawn    = 0.3 // Least score of a detection.
	mostProposals = 25
	drawnImages   = 5 // In a figure.
)

// draw draws an image with objects.
func draw(a *datasets.SegmentedImage, objects []figures.Object) image.Image {
	return figures.DrawObjects(a.Image(), objects, max(1, pictureSide/max(a.Height, a.Width)))
}

// TrainingImages draws the first n training images of a dataset with their boxes and masks, as the profile's configuration makes them.
func TrainingImages(data, dataset string, profile study.Profile, n int) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	c := grid.Defaults(profile, dataset, "")
	d := try.E1(open(study.Options{Data: data}, dataset, c, 0))
	sheet := figures.ImageGrid{Title: "training images, " + d.Title(), Images: make([][]image.Image, 1), Scale: 1}
	c.Batch, c.Parts = 1, 1
	for batch, err := range c.training(encoder.ViT{PatchSize: 8}, 0).Batches(context.Background(), d.trained, 0, 0) {
		try.E(err)
		picture := &datasets.SegmentedImage{Height: batch.Canvas.Height, Width: batch.Canvas.Width, Pixels: batch.Made[0].Pixels}
		drawn := lo.Map(try.E1(batch.Made[0].Drawn(batch.Canvas)), func(o finetune.Object, _ int) figures.Object {
			return figures.Object{Box: o.Box, Mask: o.Mask, Class: o.Class}
		})
		if sheet.Images[0] = append(sheet.Images[0], draw(picture, drawn)); len(sheet.Images[0]) == min(n, d.trained.Len()) {
			break
		}
	}
	return sheet, nil
}

// Stages draws n evenly spread test images with the trained model of the lowest seed of a row ("random", "second", "ibot-s16") and a dataset: the truth; the
// best proposals; what the first and the second stage make of them; and the detections with scores above 0.3. A row and dataset without records is an error.
func Stages(r study.Results, b compute.Backend, data, out, row, dataset string, n int) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	sheet := figures.ImageGrid{RowLabels: []string{"truth", "proposals", "after stage 1", "after stage 2", "detections"}, Images: make([][]image.Image, 5), Scale: 1}
	record, c, file, err := encoders.Recorded[Config](r, out, row, columns(dataset)[0])
	try.E(err)
	d := try.E1(open(study.Options{Data: data}, record.Dataset, c, record.Seed))
	model := try.E1(finetune.OpenDetectionModel(b, file))
	defer model.Close()
	for _, place := range datasets.Spread(d.tested.Len(), n) {
		a := try.E1(d.tested.Read(place))
		for i, objects := range try.E1(stagesOf(model, d.tested, place, a)) {
			sheet.Images[i] = append(sheet.Images[i], draw(a, objects))
		}
	}
	return sheet, nil
}

// stagesOf returns what the rows of Stages show of an image.
func stagesOf(model *finetune.DetectionModel, images *datasets.ObjectImages, place int, a *datasets.SegmentedImage) (rows [5][]figures.Object, err error) {
	defer try.Handle(&err)
	for _, t := range images.Annotations(place) {
		o := try.E1(finetune.ObjectOf(images, place, t))
		rows[0] = append(rows[0], figures.Object{Box: o.Box, Mask: o.Mask, Class: o.Class})
	}
	found, stages := try.E2(model.Entering(context.Background(), a))
	for i, entering := range stages {
		rows[1+i] = lo.Map(entering[:min(len(entering), mostProposals)], func(box [4]float64, k int) figures.Object {
			return figures.Object{Box: box, Class: k} // A colour for each proposal, to follow it.
		})
	}
	rows[4] = lo.FilterMap(found, func(f finetune.Found, _ int) (figures.Object, bool) {
		return figures.Object{Box: f.Box, Mask: f.Mask, Class: f.Class, Label: fmt.Sprintf("%.2f", f.Score)}, f.Score > leastDrawn
	})
	return rows, nil
}
