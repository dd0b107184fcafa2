package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/spelling"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/spf13/cobra"
)

func evaluateVerb(c *cobra.Command, flags flagTexts) {
	for _, named := range evaluation.List {
		c.AddCommand(evaluationVerb(named, flags))
	}
	c.AddCommand(cocoVerb(flags))
	known := append(evaluation.Names(), "coco")
	slices.Sort(known)
	c.Run = func(_ *cobra.Command, names []string) {
		name, all := strings.Join(names, " "), strings.Join(known, ", ")
		refuse(len(names) == 1, "there is no evaluation %s, want one of %s%s", name, all, spelling.DidYouMean(name, known))
		refuse(true, "want one evaluation of %s, got %s", all, listed(names))
	}
}

// flagSettings are the settings that have a flag of their name, in the evaluations that have them, and what the flag says.
var flagSettings = map[string]string{
	"memory": "`SIZES` of the memory in patches, with commas", "clusters": "`NUMBER` of clusters; as many as classes are also matched to them one to one",
	"epochs": "`NUMBER` of epochs of training", "expansion": "`NUMBER` of patches that expand the seed", "threshold": "`COSINE` above which patches are joined",
}

// evaluationCall is what the command line asks for.
type evaluationCall struct {
	evaluation.Named
	source evaluation.Source

	Weights, Format, Data, Dataset, Classes string
	Size, Images                            int
	Seed                                    uint64
	Set                                     []string // Settings of the evaluation.
}

// evaluationVerb is the part of the verb that runs one evaluation.
func evaluationVerb(named evaluation.Named, texts flagTexts) *cobra.Command {
	e := named.New()
	for _, key := range named.Sizes { // Or the protocol has images of 0 pixels.
		try.E(settings.Apply(e, key+"=224"))
	}
	protocol := e.Protocol()
	cmd := &cobra.Command{
		Use: named.Name, Short: named.Measures, Long: protocol, Args: noNames,
		Example: "semcon evaluate " + named.Name + " --weights dino_deitsmall16_pretrain.pth --data data",
	}
	labelled := slices.Contains(named.Datasets, evaluation.ImageNet)
	if labelled {
		cmd.Use, cmd.Args = named.Name+" [IMAGES…]", cobra.ArbitraryArgs
		cmd.Long += ". It takes ImageNet from --data, or images in class folders: a folder with train and val (or test), each with one folder per class; " +
			"or one folder per class, where every fifth image of each class is a test image. " + inputsHelp
		cmd.Example = strings.Replace(cmd.Example, " --data data", " --data data\nsemcon evaluate "+named.Name+" photos --weights runs/photos/encoder.safetensors", 1)
	}
	if named.Name == "linear-classification" {
		cmd.Aliases = []string{"linear-probe"}
		cmd.Long += " On class folders it trains for as many epochs as it takes to show 30,000 images, unless --epochs says otherwise."
	}
	c, flags := evaluationCall{Named: named}, cmd.Flags()
	if len(named.Datasets) > 0 {
		byDefault := lo.Intersect(named.Datasets, []string{"voc2012"})
		choices := lo.Uniq(append(byDefault, named.Datasets...))
		texts = maps.Clone(texts)
		texts["dataset"] = flagText{Usage: "`NAME` of the dataset: " + strings.Join(named.Datasets, ", "), Default: choices[0], OneOf: choices}
	}
	if !slices.Equal(named.Datasets, datasets.SegmentationKeys()) {
		texts = lo.OmitByKeys(texts, []string{"classes"}) // Of pixels.
	}
	choice := weightFlags(cmd, texts, &c)
	has := try.E1(settings.List(reflect.ValueOf(e).Elem().Interface()))
	for _, s := range has {
		if usage := flagSettings[s.Key]; usage != "" {
			flags.String(s.Key, strings.Trim(s.Value, "[]"), usage)
		}
	}
	cmd.Run = func(cmd *cobra.Command, folders []string) {
		c.source = evaluation.Source{Dir: c.Data, Dataset: c.Dataset, Folders: folders, Classes: c.Classes, Images: c.Images}
		if labelled && len(folders) == 0 && c.source.Dir != "" && !exists(filepath.Join(c.source.Dir, evaluation.ImageNet)) {
			if _, _, ok := evaluation.SplitFolders(c.source.Dir); ok { // As experiments take them.
				c.source.Folders = []string{c.source.Dir}
			}
		}
		requireWeights(c.Weights)
		refuse(c.source.Dir == "" && len(c.source.Folders) == 0,
			"--data FOLDER is missing%s", map[bool]string{true: ", or class folders as arguments"}[labelled])
		refuse(c.source.Classes != "" && !strings.Contains(c.source.Classes, ","),
			"--classes %s: one class leaves nothing to tell apart; name two or more", c.source.Classes)
		for name := range flagSettings {
			if flags.Changed(name) {
				value := flags.Lookup(name).Value.String()
				assignment := name + "=" + lo.Ternary(name == "memory", "["+value+"]", value)
				refuse(settings.Apply(e, assignment) != nil, "--%s %s: want a value like %s", name, value, flags.Lookup(name).DefValue)
				c.Set = append([]string{assignment}, c.Set...)
			}
		}
		locateFlag(cmd, "weights", &c.Weights)
		c.run(cmd.Context(), e, choice.open(c.Weights))
	}
	return cmd
}

// run evaluates weights and prints the result.
func (c evaluationCall) run(ctx context.Context, e evaluation.Evaluation, v vitFile) {
	try.E(v.Complete())
	patch := v.ViT.PatchSize
	c.Size = cmp.Or(c.Size, max(v.size/patch, 1)*patch)
	requireWhole(c.Size, patch)
	for _, key := range c.Sizes {
		c.Set = append([]string{fmt.Sprintf("%s=%d", key, c.Size)}, c.Set...)
	}
	err := settings.Apply(e, c.Set...)
	refuse(err != nil, "%v", err)
	if err = settings.Check(e); err != nil {
		key, _, _ := strings.Cut(err.Error(), " ")
		refuse(slices.Contains(c.Sizes, key) || flagSettings[key] != "", "--%v", err)
		refuse(true, "--set %v", err)
	}
	d, err := e.Open(c.source)
	if bad := (evaluation.BadSetting{}); errors.As(err, &bad) {
		refuse(true, "--%s: %v", bad.Key, err)
	}
	try.E(err)
	if len(c.source.Folders) > 0 {
		unread := try.E1(d.SkipUnread(ctx, v.preprocessing))
		sayUnread(c.source.Folders, unread, d.Objects[0].Len()+d.Objects[1].Len())
	}
	if probe, ok := e.(*evaluation.LinearClassification); ok && len(c.source.Folders) > 0 && !settings.Given(c.Set, "epochs") { // One epoch of few images trains nothing.
		probe.Epochs = max(probe.Epochs, probe.Images/d.Objects[0].Len())
	}
	batch := lo.Ternary(c.Single, 1, 16)
	encoder := v.encoder(openEngine(), batch)
	defer encoder.Close()
	encoder.Seed = c.Seed
	bar := progress.Discard
	encoder.Progress = func(done, all int, what, note string) {
		if bar == progress.Discard {
			bar = progress.New(os.Stderr, what, all)
		}
		bar.Set(done, note)
	}
	measured, err := e.Measure(ctx, encoder, d)
	bar.Close()
	try.E(cmp.Or(ctx.Err(), err))
	c.print(e, d, measured)
}

// evaluated is a result: what was measured on, and the numbers.
type evaluated struct {
	Evaluation string  `json:"evaluation"`
	Weights    string  `json:"weights"`
	Seed       *uint64 `json:"seed,omitempty"` // Nil if the evaluation draws nothing.
	Data       string  `json:"data"`
	Protocol   string  `json:"protocol"`
	Numbers    any     `json:"numbers"`

	// Everywhere has the scores of a segmentation that predicts one class for every pixel. It is nil if the evaluation is not a segmentation.
	Everywhere *everywhere `json:"everywhere,omitempty"`
}

// everywhere is what the commonest class of the test images reaches as the answer for every pixel.
type everywhere struct {
	Class string `json:"class"`
	metrics.Segmentation
}

// print prints a result.
func (c evaluationCall) print(e evaluation.Evaluation, d evaluation.Data, measured evaluation.Result) {
	r := evaluated{Evaluation: c.Name, Weights: c.Weights, Data: d.Identity(), Protocol: cmp.Or(measured.Protocol, e.Protocol()), Numbers: measured.Report}
	if d.Train != nil {
		r.Data = fmt.Sprintf("%s: %s; test: %s", cmp.Or(c.Training, "training"), d.Train.Identity, d.Test.Identity)
	}
	seed := ""
	if c.Draws {
		r.Seed, seed = &c.Seed, fmt.Sprintf(", seed %d", c.Seed)
	}
	text := fmt.Sprintf("%s\n%s\nweights: %s%s\n", r.Data, r.Protocol, r.Weights, seed)
	if report, ok := measured.Report.(fmt.Stringer); ok {
		text += report.String() + "\n"
	}
	if measured.Report == nil {
		r.Numbers = measured.Numbers
		for _, n := range measured.Numbers {
			text += n.String() + "\n"
		}
	}
	if measured.Compared != nil {
		class, constant := measured.Compared.Commonest()
		r.Everywhere = &everywhere{d.Test.Classes[class], constant}
		text += fmt.Sprintf("%s everywhere: mIoU %.2f %%, pixel accuracy %.2f %%\n", r.Everywhere.Class, constant.MIoU, constant.Accuracy)
	}
	printAs(c.Format, text, r)
}

func cocoVerb(flags flagTexts) *cobra.Command {
	c := &cobra.Command{
		Use: "coco", Short: "COCO's AP and AR of a file of detections", Args: noNames,
		Example: "semcon evaluate coco --annotations instances_val2017.json --detections results.json",
	}
	var f struct{ Annotations, Detections, Format string }
	flags.bind(c, &f)
	c.Run = func(*cobra.Command, []string) {
		refuse(f.Annotations == "", "--annotations FILE is missing")
		refuse(f.Detections == "", "--detections FILE is missing")
		result := evaluateCOCO(f.Annotations, f.Detections)
		text, what := "", []string{"annotations", "masks", "polygons of fewer than 3 corners"}
		for i, count := range []int{result.SkippedAnnotations, result.SkippedMasks, result.SkippedPolygons} {
			if count > 0 {
				text += fmt.Sprintf("left out: %d %s\n", count, what[i])
			}
		}
		text += fmt.Sprintf("boxes\n%s", result.Boxes)
		if result.Masks != nil {
			text += fmt.Sprintf("\nmasks\n%s", result.Masks)
		}
		printAs(f.Format, text, result)
	}
	return c
}

// cocoResult is what --format json prints.
type cocoResult struct {
	Images             int             `json:"images"`
	Annotations        int             `json:"annotations"`
	SkippedAnnotations int             `json:"skipped_annotations"`
	SkippedPolygons    int             `json:"skipped_polygons"`
	SkippedMasks       int             `json:"skipped_masks"` // Of annotations whose boxes count.
	Detections         int             `json:"detections"`
	UnknownCategories  int             `json:"unknown_categories"` // Detections of them.
	Boxes              metrics.COCOAP  `json:"boxes"`
	Masks              *metrics.COCOAP `json:"masks,omitempty"` // Nil if no detection has one.
}

// evaluateCOCO judges boxes, and masks where detections have them. What does not count is said on standard error.
func evaluateCOCO(annotations, detections string) (r cocoResult) {
	truth := try.E1(datasets.OpenInstances(annotations))
	found := try.E1(metrics.OpenDetections(detections, truth))
	fail(len(found) == 0, "%s: has no detections", detections)
	r = cocoResult{Images: len(truth.Images), Annotations: len(truth.Annotations), SkippedAnnotations: truth.SkippedCount,
		SkippedPolygons: truth.SkippedPolygons, Detections: len(found)}
	r.UnknownCategories = lo.CountBy(found, func(d metrics.Detection) bool { return !truth.HasCategory(d.Category) })
	masked := slices.ContainsFunc(found, func(d metrics.Detection) bool { return d.Mask != nil })
	warn := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	for _, s := range truth.Skipped {
		warn("skipped %s: %s", s.File, s.Reason)
	}
	if slices.ContainsFunc(truth.Annotations, func(a datasets.Annotation) bool { return a.ID == 0 }) {
		warn("%s: annotation 0 counts as missed, as in pycocotools: number annotations from 1", truth.Name)
	}
	if r.UnknownCategories > 0 {
		warn("%s: %d detections have categories that %s does not have, and do not count", detections, r.UnknownCategories, truth.Name)
	}
	judge := func(by metrics.COCOKind, none string) metrics.COCOAP {
		judged, err := metrics.EvaluateCOCO(truth, found, by)
		fail(err != nil && strings.HasPrefix(err.Error(), "detection "), "%s: %w", detections, err) // An error about the truth names its file.
		try.E(err)
		fail(judged.AP < 0, "%s: has no %s", annotations, none)
		return judged
	}
	if r.Boxes = judge(metrics.Boxes, "annotation that can be used, other than crowds"); masked {
		for _, s := range truth.RequireMasks() {
			warn("masks: skipped %s: %s", s.File, s.Reason)
		}
		r.SkippedMasks = r.Annotations - len(truth.Annotations)
		r.Masks = new(judge(metrics.Masks, "mask that can be used, other than crowds'"))
	}
	return r
}
