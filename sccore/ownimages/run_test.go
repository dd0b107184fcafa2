package ownimages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// small are settings of a run of seconds.
var small = []string{"encoder=vit-16x2x2p8-grid6", "batch=4", "steps=3"}

// stopAt is a bar that stops a run after a step.
type stopAt struct {
	progress.Bar
	step int
	stop func()
}

func (b stopAt) Set(done int, note string) {
	if done == b.step {
		b.stop()
	}
}

// filesOf returns the content of all files of a run by name, but for what it locks.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "lock" {
			return err
		}
		files[strings.TrimPrefix(path, dir)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sineWeights writes weights of a sine to a file of some names.
func sineWeights(t *testing.T, naming weights.Naming) (file string) {
	t.Helper()
	v, err := encoder.ViTByName("vit-16x2x2p8-grid6")
	if err != nil {
		t.Fatal(err)
	}
	store := model.NewStore()
	for k, w := range v.Weights() {
		values := make([]float32, w.Size())
		for i := range values {
			values[i] = 0.3 * float32(math.Sin(12.9898*float64(i)+78.233*float64(k)))
		}
		if _, err := store.CreateVariable("/"+w.Path, tensors.FromFlatDataAndDimensions(values, w.Shape...)); err != nil {
			t.Fatal(err)
		}
	}
	file = filepath.Join(t.TempDir(), weights.ModelFile)
	if err := weights.Export(file, naming, store, "/", v, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := weights.WriteConfig(file, naming, v, datasets.DefaultPreprocessing(), 48); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTrainFromRandomWeights looks into what a run leaves, and calls for it again.
func TestTrainFromRandomWeights(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	dir := folder(t, 24, "cats", "dogs")
	put(t, filepath.Join(dir, "cats", "cut.png"), []byte("cut"))
	var said []string
	o := Options{
		Folders: Folders{Images: []string{dir}}, Start: Start{Smoke: true, Set: small}, Out: filepath.Join(t.TempDir(), "run"), Command: "semcon train",
		Say: func(line string) { said = append(said, line) },
	}
	if err := Train(t.Context(), testbackend.Go(t), o); err != nil {
		t.Fatal(err)
	}
	if said[0] != "25 images: 19 to train, 6 held out; 2 class folders" {
		t.Errorf("the first line is %q", said[0])
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "step 0: effective rank") || !strings.Contains(all, "step 3: ") || !strings.Contains(all, "k-NN") {
		t.Errorf("said\n%s", all)
	}
	checkFiles(t, filesOf(t, o.Out))
	said = nil
	finished, left := filesOf(t, o.Out), filepath.Join(o.Out, checkpoints, "step-000000002.safetensors")
	if err := os.WriteFile(left, nil, 0o644); err != nil { // As a process that is killed just after its last file.
		t.Fatal(err)
	}
	if err := Train(t.Context(), nil, o); err != nil || said != nil || !Finished(o.Out) { // It needs no backend, since nothing is left to do.
		t.Errorf("said %q, %v", said, err)
	}
	if again := filesOf(t, o.Out); !maps.EqualFunc(finished, again, bytes.Equal) {
		t.Errorf("the finished run has %v, before %v", slices.Sorted(maps.Keys(again)), slices.Sorted(maps.Keys(finished)))
	}
	o.Start.Set = append(o.Start.Set, "rate=1")
	if err := Train(t.Context(), nil, o); err == nil || !strings.Contains(err.Error(), o.Out+": is the folder of a run with other settings") {
		t.Errorf("another run in the folder: %v", err)
	}
	o.Out = o.Folders.Images[0] // Photographs are no place for a run.
	if err := Train(t.Context(), nil, o); err == nil || !strings.Contains(err.Error(), "and no run; name another folder") {
		t.Errorf("a run among the images: %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, study.LockFile)); err == nil {
		t.Error("a lock among the images")
	}
}

// TestTrainRefusesDevicesBeforeItBegins: the folder stays free for a run with another number of devices.
func TestTrainRefusesDevicesBeforeItBegins(t *testing.T) {
	b := testbackend.Devices(t, 3)
	o := Options{Folders: Folders{Images: []string{folder(t, 24)}}, Start: Start{Smoke: true, Set: small}, Out: filepath.Join(t.TempDir(), "run")}
	if err := Train(t.Context(), b, o); err == nil || err.Error() != "devices 3: they cannot share 4 images of a batch equally" {
		t.Error(err)
	}
	if _, err := os.Stat(o.Out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the run: %v", err)
	}
}

// TestTrainMeasuresAsOftenAsItIsTold wants diagnostics at the start, every gauge_every steps, and at the end.
func TestTrainMeasuresAsOftenAsItIsTold(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	o := Options{Folders: Folders{Images: []string{folder(t, 24)}}, Start: Start{Smoke: true, Set: append(slices.Clone(small), "steps=5", "gauge_every=2")}, Out: t.TempDir()}
	if err := Train(t.Context(), testbackend.Go(t), o); err != nil {
		t.Fatal(err)
	}
	points, err := ReadMetrics(filepath.Join(o.Out, MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	var measured []string
	for _, point := range points {
		if point["similarity"] != "" {
			measured = append(measured, point["step"])
		}
	}
	if !slices.Equal(measured, []string{"0", "2", "4", "5"}) {
		t.Errorf("measured at steps %q, want 0, 2, 4 and 5", measured)
	}
}

// TestTrainGoesOnAfterItWasStopped trains with all losses from weights, once without a stop and once with two.
func TestTrainGoesOnAfterItWasStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := testbackend.Go(t)
	o := Options{
		Folders: Folders{Images: []string{folder(t, 24)}}, Start: Start{Smoke: true, Set: []string{"batch=4", "steps=3"}, Init: sineWeights(t, weights.Timm)},
		Seed: 3, Out: filepath.Join(t.TempDir(), "run"),
	}
	if err := Train(t.Context(), b, o); err != nil {
		t.Fatal(err)
	}
	want, whole := filesOf(t, o.Out), o.Out
	o.Out = filepath.Join(t.TempDir(), "run")
	for i, at := range []int{1, 2, 0} {
		said := ""
		o.Say = func(line string) { said += line + "\n" }
		ctx, stop := context.WithCancel(t.Context())
		o.Bar = func(title string, _ int) progress.Bar {
			if title == "train" {
				return stopAt{progress.Discard, at, stop}
			}
			return progress.Discard
		}
		if err := Train(ctx, b, o); at > 0 && !errors.Is(err, context.Canceled) || at == 0 && err != nil {
			t.Fatalf("stopped at step %d: %v", at, err)
		}
		page, err := os.ReadFile(filepath.Join(o.Out, ReportFile))
		if now := fmt.Sprintf("After step %d of 3.", at); err != nil || strings.Contains(string(page), now) != (at > 0) {
			t.Errorf("stopped at step %d, the report has no %q, %v", at, now, err)
		}
		if line := fmt.Sprintf("%s is the encoder after step %d of 3, ", filepath.Join(o.Out, EncoderFile), at); strings.Contains(said, line) != (at > 0) {
			t.Errorf("stopped at step %d, it said\n%s", at, said)
		}
		for _, name := range []string{"encoder.md", "config.json"} {
			if _, err := os.Stat(filepath.Join(o.Out, name)); err != nil {
				t.Errorf("stopped at step %d: %v", at, err)
			}
		}
		if strings.Contains(said, fmt.Sprintf("continues after step %d\n", i)) != (i > 0) || Finished(o.Out) != (at == 0) {
			t.Errorf("call %d said\n%s", i, said)
		}
		stop()
	}
	got := filesOf(t, o.Out)
	for name, content := range want { // The report names its folder.
		if !bytes.Equal(bytes.ReplaceAll(got[name], []byte(o.Out), []byte("OUT")), bytes.ReplaceAll(content, []byte(whole), []byte("OUT"))) {
			t.Errorf("%s differs", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

// checkFiles looks into the files of a run.
func checkFiles(t *testing.T, files map[string][]byte) {
	t.Helper()
	for _, name := range []string{EncoderFile, BestFile, InitialFile, MetricsFile, EventsFile, ReportFile, "encoder.md", "config.json"} {
		if len(files["/"+name]) == 0 {
			t.Errorf("no %s", name)
		}
	}
	if events := string(files["/"+EventsFile]); strings.Count(events, "patch features before and after") != 4 || strings.Count(events, "```json") != 1 {
		t.Error("not four images and once the settings among the events")
	}
	for name, wants := range map[string][]string{
		"/encoder.md": {"centre crop of 24 px", " The encoder was trained at this size and measured at 48 px.\n"}, "/config.json": {"3,\n      24,\n      24\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(string(files[name]), want) {
				t.Errorf("no %q in %s", want, files[name])
			}
		}
	}
	page := string(files["/"+ReportFile])
	for _, want := range []string{"Nothing says that training has damaged", "k-NN accuracy", "cut.png: ", "2 class folders", "data:image/svg&#43;xml;base64,", "data:image/png;base64,", "\nsteps=3\n", "\nviews.global_size=", "<pre>semcon train</pre>", "<td>random weights</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the report", want)
		}
	}
	for _, bad := range []string{"http:", "https:", "src=\"//", "<script"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q in the report", bad)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(files["/"+MetricsFile])), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "step,learning_rate,gradient_norm,loss,") || !strings.HasPrefix(lines[1], "0,,,,") || !strings.HasPrefix(lines[4], "3,") {
		t.Errorf("metrics\n%s", files["/"+MetricsFile])
	}
}

// TestDriftGaugeTellsARateThatIsTooHigh trains from the same weights at the default rate and at a hundred times as much.
func TestDriftGaugeTellsARateThatIsTooHigh(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := testbackend.Go(t)
	dir := folder(t, 24)
	from := Start{Smoke: true, Init: sineWeights(t, weights.Timm), Set: []string{"batch=4", "steps=6", "warmup=0"}}
	config, err := from.Config(18, 18)
	if err != nil {
		t.Fatal(err)
	}
	for factor, want := range map[float64]bool{1: false, 100: true} {
		out, warned, marked := t.TempDir(), 0, false
		start := from
		start.Set = append(start.Set[:3:3], "rate="+number(factor*config.LearningRate), "final_rate="+number(factor*config.LearningRate))
		err := Train(t.Context(), b, Options{Folders: Folders{Images: []string{dir}}, Start: start, Out: out, Say: func(line string) {
			warned += strings.Count(line, "\nwarning: ")
			marked = marked || strings.Contains(line, "; damaged, as at step ")
			t.Logf("rate × %g: %s", factor, line)
		}})
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(out, ReportFile))
		if err != nil || strings.Contains(string(page), "Training has damaged the encoder") != want || warned > 0 != want || warned > 3 || marked != want {
			t.Errorf("rate × %g: damage is seen: %t, warned: %d times, marked: %t, want %t; %v", factor, !want, warned, marked, want, err)
		}
	}
}

// TestTrainKeepsTheNaming trains on scenes and objects from weights under the names of transformers.
func TestTrainKeepsTheNaming(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := testbackend.Go(t)
	file := sineWeights(t, weights.Transformers)
	o := Options{
		Folders: Folders{Images: []string{folder(t, 12)}, Objects: folder(t, 12)}, Out: filepath.Join(t.TempDir(), "run"),
		Start: Start{Smoke: true, Init: file, Set: []string{"batch=4", "steps=1"}},
	}
	if err := Train(t.Context(), b, o); err != nil {
		t.Fatal(err)
	}
	for _, written := range []string{EncoderFile, InitialFile} {
		if naming, err := weights.NamingOf(filepath.Join(o.Out, written)); err != nil || naming != weights.Transformers {
			t.Errorf("%s has the names of %q, %v", written, naming, err)
		}
	}
	before, _, err := safetensors.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	initial, _, err := safetensors.Read(filepath.Join(o.Out, InitialFile))
	if err != nil || len(initial) != len(before) {
		t.Fatalf("%d tensors, want %d: %v", len(initial), len(before), err)
	}
	for name, tensor := range before {
		if !tensor.Equal(initial[name]) {
			t.Errorf("%s is not the initial one", name)
		}
	}
	o.Start.Set = append(o.Start.Set, "prototypes=4")
	o.Out += "2"
	if err := Train(t.Context(), b, o); err == nil || !strings.Contains(err.Error(), "Object-Aware Filter") {
		t.Errorf("a filter under the names of transformers: %v", err)
	}
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
