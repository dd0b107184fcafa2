package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/weights"
)

var evaluateVerb = verb{
	name:    "evaluate",
	summary: "evaluate weights: in-context and linear segmentation, classes of patches, overclustering, keypoints, objects; or COCO's detections",
	args:    "NAME",
	example: "semcon evaluate in-context --weights dino_deitsmall16_pretrain.pth --data data --memory 1024,102400\n" +
		"semcon evaluate linear --weights runs/photos/encoder.safetensors --data data --dataset camvid\n" +
		"semcon evaluate patches --weights runs/photos/encoder.safetensors --data data --classes background,cat,dog,person\n" +
		"semcon evaluate overclustering --weights runs/photos/encoder.safetensors --data data --clusters 300\n" +
		"semcon evaluate spair --weights dino_deitsmall16_pretrain.pth --data data --size 448\n" +
		"semcon evaluate lost --weights dino_deitsmall16_pretrain.pth --data data\n" +
		"semcon evaluate coco --annotations instances_val2017.json --detections results.json",
	run: runEvaluate,
}

// evaluations are those of weights, by name.
var evaluations = map[string]func(context.Context, evaluationCall) (evaluated, error){
	"in-context":     evaluateInContext,
	"linear":         evaluateLinear,
	"patches":        evaluatePatches,
	"overclustering": evaluateOverclustering,
	"spair":          evaluateSPair,
	"lost": func(ctx context.Context, c evaluationCall) (evaluated, error) {
		return c.discover(ctx, evaluation.LOST(c.expansion))
	},
	"tokencut": func(ctx context.Context, c evaluationCall) (evaluated, error) {
		return c.discover(ctx, evaluation.TokenCut(c.threshold))
	},
}

// evaluationCall is what the command line asks for.
type evaluationCall struct {
	weights, data, dataset string
	classes                []string
	size, clusters, images int
	epochs                 int
	expansion              int
	threshold              float64
	memories               []int
	seed                   uint64

	engine    compute.Backend
	extractor *evaluation.FeatureExtractor
}

// evaluated is a result: what was measured on, and the numbers, with lines for people.
type evaluated struct {
	Evaluation string `json:"evaluation"`
	Weights    string `json:"weights"`
	Data       string `json:"data"`
	Protocol   string `json:"protocol"`
	Numbers    any    `json:"numbers"`

	// Everywhere holds the scores of a segmentation that predicts one class for every pixel. It is nil if the evaluation is not a segmentation.
	Everywhere *everywhere `json:"everywhere,omitempty"`

	lines []string
}

func runEvaluate(ctx context.Context, args []string) error {
	flags := newFlags("evaluate")
	annotations := flags.String("annotations", "", "coco: `FILE` of the true objects, as COCO's instances_val2017.json")
	detections := flags.String("detections", "", "coco: `FILE` of results in COCO's format: boxes, masks or both")
	choice := addWeightFlags(flags)
	var c evaluationCall
	data := dataFlag(flags)
	flags.StringVar(&c.weights, "weights", "", "`FILE` of the weights, .pth or .safetensors")
	flags.StringVar(&c.dataset, "dataset", "voc2012", "in-context, linear, patches, overclustering: `NAME` of the dataset: "+strings.Join(datasets.SegmentationKeys(), ", "))
	classes := flags.String("classes", "", "in-context, linear, patches, overclustering: `NAMES` of the only classes that count, with commas between them; by default all")
	flags.IntVar(&c.size, "size", 0, "`PIXELS` of the height and width of images; by default as the weights' makers have it. lost and tokencut take images as they are")
	memory := flags.String("memory", strconv.Itoa(evaluation.DefaultInContext().Memory), "in-context: `SIZES` of the memory in patches, with commas between them")
	flags.IntVar(&c.clusters, "clusters", evaluation.DefaultOverclustering().Clusters, "overclustering: `NUMBER` of clusters; with that of the classes they are also matched one to one")
	flags.IntVar(&c.epochs, "epochs", 20, "linear: `NUMBER` of epochs of training")
	flags.IntVar(&c.images, "images", 0, "`NUMBER` of images or pairs, evenly spread; by default all")
	flags.IntVar(&c.expansion, "expansion", 100, "lost: `NUMBER` of patches of the seed's expansion")
	flags.Float64Var(&c.threshold, "threshold", 0.2, "tokencut: `COSINE` above which patches are joined")
	flags.Uint64Var(&c.seed, "seed", 0, "`NUMBER` that seeds all draws: of the memory, of crops, of the first centres; the images stay the same, so seeds do not measure the spread over images")
	format := flags.String("format", "text", "`FORMAT`: text or json")
	names, err := parse(flags, args)
	if err != nil {
		return err
	}
	known := append(slices.Collect(maps.Keys(evaluations)), "coco")
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
	case !slices.Contains(datasets.SegmentationKeys(), c.dataset):
		return usagef("--dataset %q: want one of %s", c.dataset, strings.Join(datasets.SegmentationKeys(), ", "))
	case c.size < 0 || c.size > 8192:
		return usagef("--size %d is not between 1 and 8192", c.size)
	case c.images < 0 || c.expansion < 1 || c.epochs < 1:
		return usagef("--images %d, --expansion %d and --epochs %d: want positive numbers", c.images, c.expansion, c.epochs)
	}
	if *classes != "" {
		if c.classes = strings.Split(*classes, ","); len(c.classes) == 1 {
			return usagef("--classes %s: one class leaves nothing to tell apart; name two or more", *classes)
		}
	}
	for part := range strings.SplitSeq(*memory, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || size < 1 || size > 1<<27 {
			return usagef("--memory %s: %q is not a number of patches", *memory, part)
		}
		c.memories = append(c.memories, size)
	}
	if err := requireReadableFile("weights", c.weights); err != nil {
		return err
	}
	c.data = *data
	result, err := c.run(ctx, names[0], choice)
	if err != nil {
		return err
	}
	if *format == "json" {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(result)
	}
	fmt.Printf("%s\n%s\n", result.Data, result.Protocol)
	for _, line := range result.lines {
		fmt.Println(line)
	}
	return nil
}

// run reads the weights and evaluates them.
func (c evaluationCall) run(ctx context.Context, name string, choice *weightChoice) (evaluated, error) {
	im, err := choice.read(c.weights)
	if err != nil {
		return evaluated{}, err
	}
	if len(im.Missing) > 0 {
		return evaluated{}, fmt.Errorf("%s: weights of the filter are missing, first %s", c.weights, im.Missing[0])
	}
	preprocessing, size, _, err := weights.ReadPreprocessing(c.weights)
	if err != nil {
		return evaluated{}, err
	}
	patch := im.ViT.PatchSize
	if c.size == 0 {
		c.size = max(size/patch, 1) * patch
	}
	if c.size%patch != 0 {
		return evaluated{}, usagef("--size: images of %[1]d×%[1]d pixels cannot be split into the transformer's patches of %[2]d", c.size, patch)
	}
	if c.engine, err = backend.Open(); err != nil {
		return evaluated{}, err
	}
	fmt.Fprintf(os.Stderr, "engine: %s\n", backend.Engine())
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		return evaluated{}, err
	}
	batch := 16
	if name == "lost" || name == "tokencut" {
		batch = 1 // Images have sizes of their own.
	}
	if c.extractor, err = evaluation.NewFeatureExtractor(c.engine, im.ViT, store, "/", batch); err != nil {
		return evaluated{}, err
	}
	defer c.extractor.Close()
	c.extractor.Preprocessing = preprocessing
	result, err := evaluations[name](ctx, c)
	result.Evaluation = name
	if result.Weights, err = c.weights, errOr(ctx, err); err != nil {
		return evaluated{}, err
	}
	return result, nil
}

// errOr is the error of the context, if it has ended, and else err.
func errOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
