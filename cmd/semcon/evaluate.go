package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/weights"
)

var evaluateVerb = verb{
	name: "evaluate",
	summary: "evaluate weights: k-NN and linear classification, segmentation, video, classes of patches, overclustering, keypoints, objects and more; " +
		"or COCO's detections",
	args: "NAME",
	example: "semcon evaluate in-context --weights dino_deitsmall16_pretrain.pth --data data --memory 1024,102400\n" +
		"semcon evaluate linear --weights runs/photos/encoder.safetensors --data data --dataset camvid\n" +
		"semcon evaluate patches --weights runs/photos/encoder.safetensors --data data --classes background,cat,dog,person\n" +
		"semcon evaluate overclustering --weights runs/photos/encoder.safetensors --data data --clusters 300\n" +
		"semcon evaluate knn --weights dino_deitsmall16_pretrain.pth --data data --set k=10\n" +
		"semcon evaluate video --weights dino_deitsmall16_pretrain.pth --data data --images 5\n" +
		"semcon evaluate spair --weights dino_deitsmall16_pretrain.pth --data data --size 448\n" +
		"semcon evaluate lost --weights dino_deitsmall16_pretrain.pth --data data\n" +
		"semcon evaluate coco --annotations instances_val2017.json --detections results.json",
	run: runEvaluate,
}

// evaluationCall is what the command line asks for.
type evaluationCall struct {
	weights string
	source  evaluation.Source
	size    int
	seed    uint64
	set     patterns // Settings of the evaluation.
}

// evaluated is a result: what was measured on, and the numbers.
type evaluated struct {
	Evaluation string `json:"evaluation"`
	Weights    string `json:"weights"`
	Data       string `json:"data"`
	Protocol   string `json:"protocol"`
	Numbers    any    `json:"numbers"`

	// Everywhere has the scores of a segmentation that predicts one class for every pixel. It is nil if the evaluation is not a segmentation.
	Everywhere *everywhere `json:"everywhere,omitempty"`
}

// everywhere is what the commonest class of the test images reaches as the answer for every pixel.
type everywhere struct {
	Class string `json:"class"`
	metrics.Segmentation
}

// flagSettings are the flags that stand for a setting of the same name, where an evaluation has it.
var flagSettings = []string{"memory", "clusters", "epochs", "expansion", "threshold"}

func runEvaluate(ctx context.Context, args []string) error {
	flags := newFlags("evaluate")
	annotations := flags.String("annotations", "", "coco: `FILE` of the true objects, as COCO's instances_val2017.json")
	detections := flags.String("detections", "", "coco: `FILE` of results in COCO's format: boxes, masks or both")
	choice := addWeightFlags(flags)
	var c evaluationCall
	data := dataFlag(flags)
	flags.StringVar(&c.weights, "weights", "", "`FILE` of the weights, .pth or .safetensors")
	flags.StringVar(&c.source.Dataset, "dataset", "voc2012", "`NAME` of the dataset, of evaluations with a choice: "+datasetsOfEvaluations())
	flags.StringVar(&c.source.Classes, "classes", "", "`NAMES` of the only classes of pixels that count, with commas between them; by default all")
	flags.IntVar(&c.size, "size", 0, "`PIXELS` of the height and width of images; by default as the weights' makers have it. lost and tokencut take images as they are")
	memory := flags.String("memory", "102400", "in-context: `SIZES` of the memory in patches, with commas between them")
	flags.Int("clusters", evaluation.DefaultOverclustering().Clusters, "overclustering: `NUMBER` of clusters; with that of the classes they are also matched one to one")
	flags.Int("epochs", 20, "linear, fcn, linear-classification: `NUMBER` of epochs of training")
	flags.IntVar(&c.source.Images, "images", 0, "`NUMBER` of images, videos or pairs, evenly spread; by default all")
	flags.Int("expansion", 100, "lost: `NUMBER` of patches of the seed's expansion")
	flags.Float64("threshold", 0.2, "tokencut: `COSINE` above which patches are joined")
	flags.Uint64Var(&c.seed, "seed", 0, "`NUMBER` that seeds all draws: of the memory, of crops, of the first centres; the images stay the same, so seeds do not measure the spread over images")
	flags.Var(&c.set, "set", "`KEY=VALUE` of a setting of the evaluation; can be given several times. An unknown key lists all")
	format := flags.String("format", "text", "`FORMAT`: text or json")
	names, err := parse(flags, args)
	if err != nil {
		return err
	}
	known := append(evaluation.Names(), "coco")
	slices.Sort(known)
	switch {
	case len(names) != 1 || !slices.Contains(known, names[0]):
		return usagef("want one evaluation of %s, got %s", strings.Join(known, ", "), listed(names))
	case *format != "text" && *format != "json":
		return usagef("--format %q: want text or json", *format)
	case names[0] == "coco":
		return runEvaluateCOCO(*annotations, *detections, *format)
	case c.weights == "":
		return noWeights()
	case *data == "":
		return usagef("--data FOLDER is missing")
	case c.size < 0 || c.size > 8192:
		return usagef("--size %d is not between 1 and 8192", c.size)
	case c.source.Images < 0:
		return usagef("--images %d: want a positive number", c.source.Images)
	case c.source.Classes != "" && !strings.Contains(c.source.Classes, ","):
		return usagef("--classes %s: one class leaves nothing to tell apart; name two or more", c.source.Classes)
	}
	for part := range strings.SplitSeq(*memory, ",") {
		if size, err := strconv.Atoi(strings.TrimSpace(part)); err != nil || size < 1 {
			return usagef("--memory %s: %q is not a number of patches", *memory, part)
		}
	}
	named, err := evaluation.ByName(names[0])
	if err != nil {
		return err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if len(named.Datasets) > 0 && !slices.Contains(named.Datasets, c.source.Dataset) {
		if given["dataset"] {
			return usagef("--dataset %q: want one of %s", c.source.Dataset, strings.Join(named.Datasets, ", "))
		}
		c.source.Dataset = named.Datasets[0]
	}
	evaluated := named.New()
	has, err := settings.List(reflect.ValueOf(evaluated).Elem().Interface())
	if err != nil {
		return err
	}
	for _, name := range flagSettings {
		if given[name] && slices.ContainsFunc(has, func(s settings.Setting) bool { return s.Key == name }) {
			value := flags.Lookup(name).Value.String()
			if name == "memory" {
				value = "[" + value + "]"
			}
			c.set = append([]string{name + "=" + value}, c.set...)
		}
	}
	if err := requireReadableFile("weights", c.weights); err != nil {
		return err
	}
	c.source.Dir = *data
	return c.run(ctx, named, evaluated, choice, *format)
}

// datasetsOfEvaluations lists the datasets of the evaluations that have a choice.
func datasetsOfEvaluations() string {
	var all []string
	for _, e := range evaluation.List {
		if len(e.Datasets) > 1 {
			all = append(all, e.Datasets...)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// run reads the weights, evaluates them and prints the result.
func (c evaluationCall) run(ctx context.Context, named evaluation.Named, e evaluation.Evaluation, choice *weightChoice, format string) error {
	im, err := choice.read(c.weights)
	if err != nil {
		return err
	}
	if len(im.Missing) > 0 {
		return fmt.Errorf("%s: weights of the filter are missing, first %s", c.weights, im.Missing[0])
	}
	preprocessing, size, _, err := weights.ReadPreprocessing(c.weights)
	if err != nil {
		return err
	}
	patch := im.ViT.PatchSize
	if c.size == 0 {
		c.size = max(size/patch, 1) * patch
	}
	if c.size%patch != 0 {
		return usagef("--size: images of %[1]d×%[1]d pixels cannot be split into the transformer's patches of %[2]d", c.size, patch)
	}
	for _, key := range named.Sizes {
		c.set = append([]string{fmt.Sprintf("%s=%d", key, c.size)}, c.set...)
	}
	if err := cmp.Or(settings.Apply(e, c.set...), settings.Check(e)); err != nil {
		return usagef("%v", err)
	}
	d, err := e.Open(c.source)
	if bad := (evaluation.BadSetting{}); errors.As(err, &bad) {
		return usagef("--%s: %v", bad.Key, err)
	}
	if err != nil {
		return err
	}
	engine, err := backend.Open()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "engine: %s\n", backend.Engine())
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		return err
	}
	batch := 16
	if named.Single {
		batch = 1
	}
	extractor, err := evaluation.NewFeatureExtractor(engine, im.ViT, store, "/", batch)
	if err != nil {
		return err
	}
	extractor.Preprocessing = preprocessing
	encoder := &evaluation.Encoder{FeatureExtractor: extractor, Seed: c.seed, Owned: store}
	defer encoder.Close()
	var bar progress.Bar
	encoder.Progress = func(done, all int, what, note string) {
		if bar == nil {
			bar = progress.New(os.Stderr, what, all)
		}
		bar.Set(done, note)
	}
	measured, err := e.Measure(ctx, encoder, d)
	if bar != nil {
		bar.Close()
	}
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return err
	}
	return printEvaluated(c.weights, named, e, d, measured, format)
}

// printEvaluated prints a result.
func printEvaluated(file string, named evaluation.Named, e evaluation.Evaluation, d evaluation.Data, measured evaluation.Result, format string) error {
	r := evaluated{Evaluation: named.Name, Weights: file, Data: d.Identity(), Protocol: cmp.Or(measured.Protocol, e.Protocol()), Numbers: measured.Report}
	if d.Train != nil {
		r.Data = fmt.Sprintf("%s: %s; test: %s", cmp.Or(named.Training, "training"), d.Train.Identity, d.Test.Identity)
	}
	var lines []string
	if text, ok := measured.Report.(fmt.Stringer); ok {
		lines = append(lines, text.String())
	}
	if measured.Report == nil {
		r.Numbers = measured.Numbers
		for _, n := range measured.Numbers {
			lines = append(lines, n.String())
		}
	}
	if measured.Compared != nil {
		class, constant := measured.Compared.Commonest()
		r.Everywhere = &everywhere{d.Test.Classes[class], constant}
		lines = append(lines, fmt.Sprintf("%s everywhere: mIoU %.2f %%, pixel accuracy %.2f %%", r.Everywhere.Class, constant.MIoU, constant.Accuracy))
	}
	if format == "json" {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	fmt.Printf("%s\n%s\n%s\n", r.Data, r.Protocol, strings.Join(lines, "\n"))
	return nil
}
