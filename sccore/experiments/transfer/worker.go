package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/evaluation"
)

// headsFile holds the trained heads of a cell.
const headsFile = "heads.safetensors"

// transferRun is a cell at work.
type transferRun struct {
	*transferWorker
	ctx     context.Context
	cell    transferCell
	data    transferData
	dir     string
	frozen  *evaluation.Frozen
	trainer *evaluation.SegmentationTrainer
	fixed   evaluation.FixedFeatures
	crops   *evaluation.FeatureFile // Nil where crops are not kept.

	course struct {
		Seconds float64   `json:"seconds"` // Of training.
		Losses  []float32 `json:"losses"`  // Of the last step.
	}
}

// run trains and judges the heads of a cell from where its folder stands, and records the result. When ctx ends, it leaves a checkpoint and
// returns ctx's error.
func (w *transferWorker) run(ctx context.Context, c transferCell) error {
	s := w.study
	data := s.data[c.dataset]
	r := &transferRun{transferWorker: w, ctx: ctx, cell: c, data: data, dir: filepath.Join(s.dir, c.folder(data.identity()))}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(r.dir, "lock"))
	if errors.Is(err, errLocked) {
		s.options.warn("%s is left to another process, which is at it", c.name())
		s.found(c.steps())
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	// The other process may have finished it between our look at the records and now.
	if recorded, err := recordedOn(s.dir); err != nil || recorded[c.key(data.identity())] {
		s.found(c.steps())
		return err
	}
	if err := atomicfile.Sweep(r.dir); err != nil {
		return err
	}
	if r.frozen, r.trainer, err = w.prepare(c, len(r.data.train.Classes)); err != nil {
		return err
	}
	r.fixed = evaluation.FixedFeatures{Encoder: r.frozen, Images: r.data.train, Crop: c.config.crop(), Seed: 1, Test: c.config.Test}
	if r.crops, err = r.keepCrops(); err != nil {
		return err
	}
	if r.crops != nil {
		defer r.crops.Close()
	}
	if err := r.train(); err != nil {
		return err
	}
	return r.finish()
}

// keepCrops opens the file of the features of all crops, or returns nil where crops are drawn anew each time or the file would be too large.
func (r *transferRun) keepCrops() (*evaluation.FeatureFile, error) {
	if r.cell.config.Crops == 0 {
		return nil, nil
	}
	var samples []evaluation.Sample
	for _, image := range r.data.trained {
		for crop := range r.cell.config.Crops {
			samples = append(samples, evaluation.Sample{Image: image, Crop: crop})
		}
	}
	grid := r.fixed.Grid()
	return r.keep("crops", len(samples), grid*grid*r.frozen.ViT.Dim, 64*grid*grid, r.fixed.Crops(r.ctx, samples))
}

// keep opens a file of features, which every run on the same encoder and images shares, and makes it if it fits in what such files may take.
func (r *transferRun) keep(kind string, count, features, labels int, compute iter.Seq2[evaluation.Patches, error]) (*evaluation.FeatureFile, error) {
	r.study.features.Lock()
	defer r.study.features.Unlock()
	c := r.cell.config
	encoder := c.Encoder.Digest
	if encoder == "" {
		encoder = fmt.Sprintf("%s of seed %d", c.Encoder.Architecture, r.cell.seed)
	}
	name := hashOf(fmt.Appendf(nil, "%s, %s, %s, crops %d of %+v, whole %d, %d images", r.data.identity(), encoder, kind, c.Crops, c.crop(), c.Test, count))
	dir := filepath.Join(r.study.dir, "features")
	path := filepath.Join(dir, name+".features")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		taken := evaluation.FeatureFileSize(count, features, labels)
		files, err := filepath.Glob(filepath.Join(dir, "*.features"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				taken += info.Size()
			}
		}
		if float64(taken) > c.CacheGiB*(1<<30) {
			r.study.options.warn("%s: features are computed anew each time: kept, all would take %.1f GiB of the %g that cache_gib allows", r.cell.name(), float64(taken)/(1<<30), c.CacheGiB)
			return nil, nil
		}
		r.study.bar.Set(int(r.study.done.Load()), fmt.Sprintf("%s  features of %d %s", r.cell.name(), count, kind))
	}
	return evaluation.OpenFeatureFile(path, count, features, labels, compute)
}

// train brings the heads to the end of their training: from the last checkpoint, or from the start.
func (r *transferRun) train() error {
	t, path := r.trainer, filepath.Join(r.dir, checkpointFile)
	if err := t.Begin(uint64(r.cell.seed)); err != nil {
		return err
	}
	for _, from := range []string{filepath.Join(r.dir, headsFile), path} {
		if _, err := os.Stat(from); err != nil {
			continue
		}
		note, err := t.Resume(from)
		if err == nil {
			err = json.Unmarshal([]byte(note), &r.course)
		}
		if err != nil {
			return fmt.Errorf("%w (remove %s to start this run afresh)", err, r.dir)
		}
		r.study.found(t.Done())
		break
	}
	save := func(path string) error {
		note, err := json.Marshal(r.course)
		if err != nil {
			return err
		}
		return t.Save(path, string(note))
	}
	order := sampleOrder{seed: uint64(r.cell.seed), n: len(r.data.trained)}
	t.Crops = func(_ context.Context, step int) iter.Seq2[evaluation.Patches, error] { return r.batch(&order, step) }
	saved, begun, before := time.Now(), time.Now(), r.course.Seconds
	for t.Done() < r.cell.steps() {
		r.course.Seconds = before + time.Since(begun).Seconds()
		if t.Done() > 0 && (r.ctx.Err() != nil || time.Since(saved) > r.study.options.CheckpointEvery) {
			if err := save(path); err != nil {
				return err
			}
			saved = time.Now()
		}
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		var err error
		if r.course.Losses, err = t.Step(r.ctx); err != nil {
			return err
		}
		finite := slices.DeleteFunc(slices.Clone(r.course.Losses), func(loss float32) bool { return math.IsNaN(float64(loss)) || math.IsInf(float64(loss), 0) })
		r.study.bar.Set(int(r.study.done.Add(1)), fmt.Sprintf("%s  loss %.3f", r.cell.name(), slices.Min(finite)))
	}
	r.course.Seconds = before + time.Since(begun).Seconds()
	if err := save(filepath.Join(r.dir, headsFile)); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sampleOrder is the order in which training images are seen: shuffled anew for each pass over them.
type sampleOrder struct {
	seed  uint64
	n     int
	epoch int
	perm  []int
}

// at returns the pass over the images that a sample belongs to, and the place of its image.
func (o *sampleOrder) at(sample int) (epoch, place int) {
	if epoch = sample / o.n; o.perm == nil || o.epoch != epoch {
		o.epoch, o.perm = epoch, rand.New(rand.NewPCG(o.seed, uint64(epoch))).Perm(o.n)
	}
	return epoch, o.perm[sample%o.n]
}

// batch yields the features and labels of a step.
func (r *transferRun) batch(order *sampleOrder, step int) iter.Seq2[evaluation.Patches, error] {
	c := r.cell.config
	var places []int
	var samples []evaluation.Sample
	for i := range c.Batch {
		crop, place := order.at(step*c.Batch + i)
		if c.Crops > 0 {
			crop %= c.Crops
		}
		places, samples = append(places, place*c.Crops+crop), append(samples, evaluation.Sample{Image: r.data.trained[place], Crop: crop})
	}
	if r.crops != nil {
		return r.crops.All(places)
	}
	return r.fixed.Crops(r.ctx, samples)
}

// judge tells how well the heads segment images.
func (r *transferRun) judge(fixed evaluation.FixedFeatures, kind string, which []int) ([]evaluation.Segmentation, error) {
	grid := r.cell.config.Test / r.frozen.ViT.Patch
	source := fixed.Whole(r.ctx, which)
	file, err := r.keep(kind, len(which), grid*grid*r.frozen.ViT.Dim, 0, source)
	if err != nil {
		return nil, err
	}
	if file != nil {
		defer file.Close()
		source = file.All(spread(len(which), 0))
	}
	r.study.bar.Set(int(r.study.done.Load()), fmt.Sprintf("%s  judging on %d %s", r.cell.name(), len(which), kind))
	return r.trainer.Judge(fixed.Images, which, grid, source)
}

// finish chooses the rate, judges the heads on the test images and records the result.
func (r *transferRun) finish() error {
	c := r.cell.config
	held, err := r.judge(r.fixed, "held-out images", r.data.held)
	if err != nil {
		return err
	}
	test := r.fixed
	test.Images = r.data.test
	judged, err := r.judge(test, "test images", r.data.seen)
	if err != nil {
		return err
	}
	best := 0
	for i := range held {
		if held[i].MIoU > held[best].MIoU {
			best = i
		}
	}
	details := map[string]float64{
		"accuracy": judged[best].Accuracy, "rate": c.Rates[best], "loss": float64(r.course.Losses[best]),
		"crops_per_second": float64(r.cell.steps()*c.Batch) / r.course.Seconds,
	}
	for i, rate := range c.Rates {
		details[fmt.Sprintf("held_out_miou_rate_%g", rate)], details[fmt.Sprintf("miou_rate_%g", rate)] = held[i].MIoU, judged[i].MIoU
	}
	for name, value := range details {
		if math.IsNaN(value) || math.IsInf(value, 0) { // JSON has no word for it.
			delete(details, name)
		}
	}
	file, err := filepath.Rel(r.study.dir, r.dir)
	if err != nil {
		return err
	}
	return Record{
		Experiment: Transfer, Cell: r.cell.name(), Row: c.Encoder.Row, Column: r.data.train.Name + "/" + headTitle(c.Head),
		Metric: "mIoU", Unit: "%", Value: judged[best].MIoU,
		Seed: r.cell.seed, Profile: r.study.options.Profile, Config: configJSON(c), ConfigHash: c.hash(),
		Protocol: r.protocol(best), Data: r.data.identity(), Details: details, Curve: filepath.ToSlash(file), Skipped: []string{},
		Backend: backend.Name(), Versions: versions(), Seconds: r.course.Seconds, Finished: time.Now().UTC().Truncate(time.Second),
	}.Append(r.study.dir)
}

// protocol says how the number came about.
func (r *transferRun) protocol(best int) string {
	c := r.cell.config
	head, decay := "linear 1×1 head", ""
	if c.Head == evaluation.FCNHead {
		head, decay = fmt.Sprintf("FCN of width %d", c.Width), fmt.Sprintf(" decaying to %g on a cosine", c.FinalRate)
	}
	crops := "a new one each time"
	if c.Crops > 0 {
		crops = fmt.Sprintf("%d of each image", c.Crops)
	}
	return fmt.Sprintf("%s on fixed patch features of %s; crops of %d px of %g to 1 of an image's area, mirrored half of the time, %s; %d steps of %d crops, "+
		"Adam at rate %g of %v%s, chosen by mIoU on %d held-out training images; %d test images resized to %d×%d px, logits resized bilinearly to the annotation's "+
		"size, ignored pixels (255) left out",
		head, r.frozen.ViT.Name, c.Train, c.MinArea, crops, r.cell.steps(), c.Batch, c.Rates[best], c.Rates, decay, len(r.data.held), len(r.data.seen), c.Test, c.Test)
}

func headTitle(kind string) string {
	for _, head := range transferHeads {
		if head.kind == kind {
			return head.title
		}
	}
	return kind
}
