package ownimages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/tensorboard"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// Files in the folder of a run.
const (
	EncoderFile = "encoder.safetensors" // The trained encoder: the online branch after the last step, or so far while the run lasts.
	BestFile    = "best.safetensors"    // The best encoder so far; see verdict.best. There is none while every measured one is damaged.
	InitialFile = "initial.safetensors" // The encoder before the first step.
	MetricsFile = "metrics.csv"
	EventsFile  = tensorboard.FilePrefix + "semcon"
	ReportFile  = "report.html"

	pictures       = "pictures/%06d.png" // Patch features at a step.
	checkpoints    = "checkpoints"       // The folder of what resuming needs.
	initialPatches = checkpoints + "/initial-patches.safetensors"
)

// Options are what a run is made of.
type Options struct {
	Folders Folders
	Start   Start
	Out     string // The folder of the run.
	Seed    uint64
	Command string // The command line, for the report.

	CheckpointEvery time.Duration
	Bar             func(title string, total int) progress.Bar // Nil for none.
	Say             func(line string)                          // Called with each measurement and warning, by another goroutine once the run is stopped; nil for nothing.
}

// description is the content of [datasets.RunFile], by which another run does not go on in the folder. Two calls with another command continue the same run if everything else is the same.
type description struct {
	Command string          `json:"command"`
	Images  string          `json:"images"`
	Times   string          `json:"times"`   // Of the images; see [datasets.ImageFolder.Times].
	Content string          `json:"content"` // Of the images; see [datasets.ImageFolder.Content].
	Init    string          `json:"init"`
	Ignore  []string        `json:"ignore,omitempty"`
	Naming  weights.Naming  `json:"naming"`
	Size    int             `json:"gauge_size"`
	Every   int             `json:"gauge_every"`
	Seed    uint64          `json:"seed"`
	Config  json.RawMessage `json:"config"`
}

// run is a run in progress.
type run struct {
	Options
	backend compute.Backend
	images  *Images
	config  sccore.Config
	naming  weights.Naming
	about   description
	trainer *recipe.Trainer
	verdict verdict
	state   state
}

// state is what checkpoints keep beside the weights.
type state struct {
	Curve   []Point  `json:"curve"`
	Skipped []string `json:"skipped"` // Files that training could not read.
}

// Train trains an encoder, or goes on with what an earlier call has begun in the same folder. A run that was killed, any number of times, leaves the same
// files as one that was not. The error is ctx's, [train.ErrDiverged], or one line that names the file or the setting.
func Train(ctx context.Context, b compute.Backend, o Options) (err error) {
	defer try.Handle(&err)
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Bar == nil {
		o.Bar = func(string, int) progress.Bar { return progress.Discard }
	}
	r := &run{Options: o, backend: b}
	try.E(r.open(ctx))
	try.E(checkFree(o.Out))
	try.E(os.MkdirAll(r.path(checkpoints), 0o777))
	unlock, free := try.E2(filelock.Try(r.path(study.LockFile)))
	if !free {
		return fmt.Errorf("%s: another process is training there", o.Out)
	}
	defer unlock()
	try.E(errors.Join(atomicfile.Sweep(o.Out), atomicfile.Sweep(r.path(checkpoints)), r.claim(ctx)))
	if Finished(o.Out) {
		study.Tidy(o.Out)
		study.Tidy(r.path(checkpoints))
		return nil
	}
	r.Say(r.images.Summary)
	return r.train(ctx)
}

// Finished reports whether the run in a folder is done, so that [Train] has nothing left to do.
func Finished(out string) bool {
	last := []string{filepath.Join(checkpoints, recipe.FinalFile), ReportFile, weights.CardPath(EncoderFile)} // Earlier versions wrote the card last.
	return lo.EveryBy(last, func(name string) bool { _, err := os.Stat(filepath.Join(out, name)); return err == nil })
}

func (r *run) path(name string) string { return filepath.Join(r.Out, name) }

// open reads everything that can be wrong before something is compiled or written.
func (r *run) open(ctx context.Context) (err error) {
	defer try.Handle(&err)
	v := try.E1(r.Start.encoder())
	r.naming, r.about.Init = weights.Timm, "random weights"
	if r.Start.Init != "" {
		try.E(r.openInit(v))
	}
	// The sizes do not depend on the number of images, which follows from reading them.
	config := try.E1(r.Start.Config(leastImages, leastImages))
	global := config.Views.GlobalCropSize
	size := v.NearestSize(max(global, lo.Ternary(r.Start.Smoke, 2*global, 96))) // Enough patches to see something on.
	r.images = try.E1(Open(ctx, r.Folders, size, r.Start.Smoke, r.Say))
	if r.verdict = (verdict{pretrained: r.Start.Init != "", classes: len(r.images.classes)}); r.verdict.classes > 0 {
		r.verdict.queries = r.images.queries.Len()
	}
	r.config = try.E1(r.Start.Config(r.images.Count, r.images.Train.Objects.Len()))
	try.E(train.CheckDevices(r.backend, r.config.Batch/r.config.AccumulationSteps))
	if repeats := r.images.repeats(r.config); repeats != "" {
		// A run that an earlier version began goes on.
		if _, err := os.Stat(r.path(datasets.RunFile)); err != nil && len(r.Start.given("batch")) > 0 {
			return errors.New(repeats)
		}
		r.Say("warning: " + repeats)
	}
	if v.Prototypes = r.config.Prototypes; r.naming != weights.Timm && r.naming.Fits(v) != nil {
		return fmt.Errorf("prototypes %d: %w", r.config.Prototypes, r.naming.Fits(v))
	}
	every := min(max(r.config.Steps/20, 1), 500) // Twenty times in a run, and more often in a long one.
	r.about = description{
		Command: r.Command, Images: r.images.Identity, Init: r.about.Init, Ignore: r.Start.Ignore, Naming: r.naming, Size: size,
		Every: lo.Ternary(len(r.Start.given("gauge_every")) > 0, r.config.MetricsEvery, every), Seed: r.Seed, Config: try.E1(json.Marshal(r.config)),
	}
	return nil
}

// openInit checks the file of weights that the training starts from.
func (r *run) openInit(v encoder.ViT) (err error) {
	defer try.Handle(&err)
	path := r.Start.Init
	config := sccore.Default().Adapt(v)
	config.Prototypes, config.Lambdas.Prototypes = 0, 0
	try.E(sccore.CheckStart(path, config, r.Start.Ignore...))
	if naming, err := weights.NamingOf(path, r.Start.Ignore...); err == nil { // A checkpoint of a run has none.
		r.naming = naming
	}
	r.about.Init = fmt.Sprintf("%s, sha256 %s", filepath.Base(path), try.E1(weights.Digest(path)))
	return nil
}

// train trains to the end and writes the results.
func (r *run) train(ctx context.Context) (err error) {
	watched, end := study.Watched(r.Out, "train", r.config.Steps, nil) // A run that has no such file yet counts as done.
	defer func() { end(err) }()
	defer try.Handle(&err)
	s := recipe.Stage{Name: "train", Config: r.config, Init: r.Start.Init, Ignore: r.Start.Ignore}
	r.trainer = try.E1(recipe.New(r.backend, r.images.Train, s))
	defer r.trainer.Close()
	r.trainer.Skipped = func(s datasets.Skipped) { r.skip(s.File + ": " + s.Reason) }
	defer r.sayStep(ctx)()
	bar := progress.Several(r.Bar("train", r.config.Steps), watched)
	defer bar.Close()
	try.E(r.neighbours(ctx, s))
	loop := train.Loop[sccore.StepMetrics]{
		Trainer: r.trainer.Trainer, Dir: r.path(checkpoints), Final: recipe.FinalFile, Every: r.CheckpointEvery, Note: &r.state,
		Start: func() error { return r.begin(ctx, s) },
		Resumed: func(done int) {
			bar.Resumed(done)
			r.Say(fmt.Sprintf("continues after step %d", done))
		},
		Damaged: func(file string, err error) {
			r.Say(fmt.Sprintf("resumes from an older checkpoint: %v; the damaged file is kept as %s", err, file))
		},
		Phase: bar.Phase,
	}
	var latest *Diagnostics
	loop.Evaluators = []train.Evaluator{{Name: "gauges", Every: r.about.Every, Evaluate: func(ctx context.Context) (_ map[string]float64, err error) {
		latest, err = r.measure(ctx)
		return nil, err
	}}}
	loop.After = func(m sccore.StepMetrics, _ map[string]float64) error {
		bar.Set(r.trainer.Done(), fmt.Sprintf("loss %.3f", m.Total))
		point := Point{StepMetrics: m, Diagnostics: latest}
		latest = nil
		if m.Class == nil && point.Diagnostics == nil && m.Step > 1 {
			return nil
		}
		return r.record(point)
	}
	try.E(loop.Run(ctx))
	if !Finished(r.Out) {
		try.E(r.write())
	}
	return loop.Clean()
}

var stepOfCard = regexp.MustCompile(`Step\W+(\d+ of \d+)`)

// sayStep says, when ctx ends, of which step the encoder in the folder is: when the returned function is called, or before a stopped process is killed, as it is in a
// long step.
func (r *run) sayStep(ctx context.Context) (end func()) {
	ended, said := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(said)
		select {
		case <-ended:
		case <-time.After(2 * time.Second):
		}
		card, _ := os.ReadFile(weights.CardPath(r.path(EncoderFile))) // An encoder that is not there yet has none.
		if step := stepOfCard.FindSubmatch(card); step != nil {
			r.Say(fmt.Sprintf("%s is the encoder after step %s, the last that was measured", r.path(EncoderFile), step[1]))
		}
	})
	return func() {
		if close(ended); !stop() {
			<-said
		}
	}
}

// skip notes a file that training could not read, once.
func (r *run) skip(line string) {
	if !slices.Contains(r.images.Skipped, line) && !slices.Contains(r.state.Skipped, line) {
		r.state.Skipped = append(r.state.Skipped, line)
		r.Say("skipped " + line)
	}
}

// begin sets the initial weights and measures them.
func (r *run) begin(ctx context.Context, s recipe.Stage) (err error) {
	defer try.Handle(&err)
	try.E(r.trainer.Start(s, r.Out, r.Seed))
	try.E(r.export(InitialFile))
	patches, dim := try.E1(r.patches(ctx)), r.trainer.Frozen.ViT.Dim // Later diagnostics are compared with them.
	features := tensors.FromFlatDataAndDimensions(patches, len(patches)/dim, dim)
	try.E(safetensors.Write(r.path(initialPatches), map[string]*tensors.Tensor{"patches": features}, nil))
	d := try.E1(r.measure(ctx))
	r.state = state{}
	return r.record(Point{Diagnostics: d})
}

// record adds a point to the curve. If it was measured, it says so and writes the encoder, also as the best if it is that, the report and the curves.
func (r *run) record(p Point) (err error) {
	defer try.Handle(&err)
	r.state.Curve = append(r.state.Curve, p)
	if p.Diagnostics == nil {
		return nil
	}
	r.Say(r.describe(p))
	if r.verdict.improved(r.state.Curve) {
		try.E(r.export(BestFile))
	}
	return r.write()
}

// neighbours finds the neighbours of images from which positives are drawn, by the initial encoder, or reads those that an earlier call has found.
func (r *run) neighbours(ctx context.Context, s recipe.Stage) (err error) {
	defer try.Handle(&err)
	if r.config.Lambdas.ImageConcentration == 0 {
		return nil
	}
	n := recipe.Neighbours{
		Path: r.path(filepath.Join(checkpoints, recipe.NeighboursFile)), Source: r.about.Images + "; " + r.about.Init,
		Images: r.images.Train.Objects, Size: r.about.Size, Count: r.config.Neighbours,
	}
	if _, err := os.Stat(n.Path); err != nil {
		n.Bar = &estimating{Bar: r.Bar("neighbours", n.Images.Len()), know: r.sayCost}
		defer n.Bar.Close()
		try.E(r.trainer.StartForEncoder(s, r.Out, r.Seed, n.Images.Len()))
	}
	r.trainer.SetNeighbours(try.E1(n.Find(ctx, r.backend, r.trainer.Frozen)))
	return nil
}

// checkFree returns an error if a folder holds files but no run, so that a run does not mix with photographs or other work.
func checkFree(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	other, found := lo.Find(entries, func(entry fs.DirEntry) bool { // The others are there if the run was killed before it wrote what it is.
		return entry.Name() != checkpoints && entry.Name() != study.LockFile && !strings.HasPrefix(entry.Name(), ".")
	})
	if _, err := os.Stat(filepath.Join(dir, datasets.RunFile)); err == nil || !found {
		return nil
	}
	return fmt.Errorf("%s: holds %s and no run; name another folder", dir, other.Name())
}

// claim writes what the run is, or checks that the folder is of the same run.
func (r *run) claim(ctx context.Context) (err error) {
	defer try.Handle(&err)
	path := r.path(datasets.RunFile)
	content, err := os.ReadFile(path)
	if r.about.Times = r.images.digest((*datasets.ImageFolder).Times); errors.Is(err, fs.ErrNotExist) {
		if r.images.Count > 1000 {
			r.Say("reading all images, to tell later whether they have changed")
		}
		r.about.Content = try.E1(r.images.content(ctx))
		content := try.E1(json.MarshalIndent(r.about, "", "  "))
		return atomicfile.WriteBytes(path, append(content, '\n'))
	}
	try.E(err)
	var before description
	if err := json.Unmarshal(content, &before); err != nil {
		return fmt.Errorf("%s: %.300w", path, err)
	}
	for _, part := range []struct{ name, before, now string }{
		{"other images", before.Images, r.about.Images}, {"other initial weights", before.Init, r.about.Init},
		{"other ignored keys", fmt.Sprint(before.Ignore), fmt.Sprint(r.about.Ignore)},
		{"another seed", fmt.Sprint(before.Seed), fmt.Sprint(r.Seed)}, {"other settings", compact(before.Config), compact(r.about.Config)},
		{"another gauge_every", fmt.Sprint(before.Every), fmt.Sprint(r.about.Every)},
	} {
		if part.before != part.now {
			return fmt.Errorf("%s: is the folder of a run with %s; name another folder", r.Out, part.name)
		}
	}
	r.about.Command, r.about.Content = before.Command, before.Content
	if before.Content == "" || before.Times == r.about.Times || Finished(r.Out) { // A run of before did not keep them.
		return nil
	}
	if try.E1(r.images.content(ctx)) != before.Content {
		return fmt.Errorf("%s: is the folder of a run whose images have changed since; name another folder", r.Out)
	}
	return nil
}

// compact is JSON of a configuration as it is encoded now, and the wiring of its loss as it was then.
func compact(raw json.RawMessage) string {
	var config struct {
		sccore.Config
		Wiring string `json:"wiring"`
	}
	if json.Unmarshal(raw, &config) == nil {
		config.MemoryGB = 0 // It does not change the run.
		if encoded, err := json.Marshal(config.Config); err == nil {
			return string(encoded) + config.Wiring
		}
	}
	return string(raw)
}
