package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/study"
)

// tinyStudy holds the arguments of two runs that take seconds on the Go engine.
var tinyStudy = []string{"run", "effect-aug", "--profile", "smoke", "--only", "*/simsiam", "--checkpoint-every", "0s",
	"--set", "encoder=conv4-w4", "--set", "batch=64", "--set", "projector_hidden=8", "--set", "projector_dim=8", "--set", "predictor_hidden=4"}

// onGo makes a command line run on the Go engine, without the caller's data.
func onGo(c *exec.Cmd) *exec.Cmd {
	c.Env = append(c.Env, "GOMLX_BACKEND=go", "SEMCON_DATA=")
	return c
}

// afterEngine returns the output of a run after the lines about its engine.
func afterEngine(stderr string) string {
	if rest, ok := strings.CutPrefix(stderr, "engine: pure Go, set by GOMLX_BACKEND\nwarning: "); ok {
		_, stderr, _ = strings.Cut(rest, "\n")
	}
	return stderr
}

// write creates a file and its folder.
func write(t *testing.T, content []byte, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRunRefusesWrongOptions(t *testing.T) {
	m := newMachine(t)
	for _, test := range []struct {
		args []string
		part string
	}{
		{[]string{"run"}, "one experiment"},
		{[]string{"run", "effect-augs"}, `"effect-augs"`},
		{[]string{"run", "effect-aug", "--profile", "big"}, `"big"`},
		{[]string{"run", "effect-aug", "--parallel", "-1"}, "--parallel -1"},
		{[]string{"run", "effect-aug", "--devices", "0"}, "--devices 0 is not at least 1"},
		{[]string{"run", "effect-aug", "--devices", "2", "--parallel", "2"}, "--parallel 2: runs on several devices"},
		{[]string{"train", ".", "--devices", "-1"}, "--devices -1 is not at least 1"},
		{[]string{"run", "effect-aug", "--seeds", "-2"}, "--seeds -2"},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--set", "speed=3"}, `"speed"`},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--set", "batch=many"}, `"many"`},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--set", "encoder=vgg"}, `"vgg"`},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--set", "evaluate_every=0"}, "evaluate_every 0"},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--set", "knn.k=0"}, "k 0"},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--set", "recipe.FlipProbability=2"}, "flip_probability 2"},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--only", "*/byol"}, `no method "byol"`},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--only", "*/*/crop+cut"}, `no row "crop+cut"`},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--seeds", "0"}, "--seeds 0 is not at least 1"},
		{[]string{"run", "effect-aug", "--profile", "smoke", "--set", "rate=-1"}, "--set rate -1 is not above 0"},
		{[]string{"table", "effect-aug", "--format", "doc"}, `"doc"`},
		{[]string{"claims", "--profile", "huge"}, `"huge"`},
	} {
		stdout, stderr, status := outcome(t, onGo(semcon(t, m, test.args...)))
		if status != 2 || stdout != "" {
			t.Errorf("%v: exit status %d, printed %q", test.args, status, stdout)
		}
		wantLine(t, stderr, "semcon "+test.args[0]+": ", test.part)
	}
}

// TestRunNamesItsTable runs an experiment and then the command that it prints last.
func TestRunNamesItsTable(t *testing.T) {
	m := newMachine(t)
	_, stderr, status := outcome(t, onGo(semcon(t, m, "run", "noise-tolerance", "--profile", "smoke", "--out", "records")))
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	lines := strings.Split(stderr, "\n")
	if lines[0] != "engine: pure Go, set by GOMLX_BACKEND" || !strings.HasSuffix(lines[1], "to get XLA: unset GOMLX_BACKEND") {
		t.Errorf("the run begins with %q", lines[:2])
	}
	_, command, _ := strings.Cut(stderr, "show the table: semcon ")
	stdout, stderr, status := outcome(t, semcon(t, m, strings.Fields(command)...))
	if status != 0 || stderr != "" || !strings.Contains(stdout, "binary cross-entropy") {
		t.Errorf("%q: exit status %d, %s%s", command, status, stderr, stdout)
	}
}

func TestRunOnBadData(t *testing.T) {
	m := newMachine(t)
	record := make([]byte, 3073)
	wrong := append([]byte{200}, record[1:]...)
	for name, test := range map[string]struct {
		make  func(dir string)
		parts []string
	}{
		"nowhere":         {func(string) {}, []string{"cifar10"}},
		"wrong folder":    {func(dir string) { write(t, nil, dir, "cifar10", "cifar-10-batches-py", "data_batch_1") }, []string{"cifar"}},
		"truncated batch": {func(dir string) { cifar(t, dir, append(bytes.Clone(record), 1, 2, 3)) }, []string{"data_batch_1.bin"}},
		"wrong label":     {func(dir string) { cifar(t, dir, append(bytes.Clone(record), wrong...)) }, []string{"data_batch_1.bin", "200"}},
		"no images": {func(dir string) {
			write(t, []byte("x"), dir, "train", "cat", "notes.txt")
			write(t, []byte("x"), dir, "test", "cat", "notes.txt")
		}, []string{"train"}},
	} {
		dir := t.TempDir()
		test.make(dir)
		_, stderr, status := outcome(t, onGo(semcon(t, m, "run", "effect-aug", "--data", dir, "--out", t.TempDir())))
		if status != 1 {
			t.Errorf("%s: exit status %d", name, status)
		}
		wantLine(t, stderr, append(test.parts, "semcon run: ")...)
	}
}

// cifar creates CIFAR-10 batches, with the given bytes in the first training batch.
func cifar(t *testing.T, dir string, batch []byte) {
	t.Helper()
	write(t, batch, dir, "cifar10", "cifar-10-batches-bin", "data_batch_1.bin")
	write(t, make([]byte, 3073), dir, "cifar10", "cifar-10-batches-bin", "test_batch.bin")
}

func TestRunWithoutItsPlugin(t *testing.T) {
	c := semcon(t, newMachine(t), tinyStudy...)
	c.Env = append(c.Env, "GOMLX_BACKEND=xla:/nowhere/plugin.so")
	_, stderr, status := outcome(t, c)
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	wantLine(t, stderr, "semcon run: ", "/nowhere/plugin.so", "semcon doctor")
}

// TestClassFolders runs on class folders with one unreadable image: the run names it, skips it and records that.
func TestClassFolders(t *testing.T) {
	m, data, out := newMachine(t), t.TempDir(), t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for _, split := range []string{"train", "test"} {
		for class, shade := range map[string]uint8{"dark": 0, "light": 150} {
			for i := range 8 {
				picture := image.NewGray(image.Rect(0, 0, 32, 32))
				for p := range picture.Pix {
					picture.Pix[p] = shade + uint8(random.IntN(100))
				}
				var encoded bytes.Buffer
				if err := png.Encode(&encoded, picture); err != nil {
					t.Fatal(err)
				}
				write(t, encoded.Bytes(), data, split, class, fmt.Sprintf("%d.png", i))
			}
		}
	}
	write(t, []byte("no JPEG"), data, "train", "dark", "broken.jpg")
	args := append([]string{"--data", data, "--out", out, "--profile", "quick", "--set", "epochs=1", "--seeds", "1", "--only", "images/simsiam/crop"}, tinyStudy[6:]...)
	args = append([]string{"run", "effect-aug"}, append(args, "--set", "batch=8", "--set", "epoch_images=16")...)
	_, stderr, status := outcome(t, onGo(semcon(t, m, args...)))
	if status != 0 || !strings.Contains(stderr, "skipped") || !strings.Contains(stderr, "broken.jpg") {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	records, err := study.Records(filepath.Join(out, effectaug.Name))
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if r := records[0]; len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0], "broken.jpg") || !strings.HasPrefix(r.Column, "images/") {
		t.Errorf("record %+v", r)
	}
	table, _, status := outcome(t, semcon(t, m, "table", "effect-aug", "--out", out))
	if status != 0 || !strings.Contains(table, "images") {
		t.Errorf("exit status %d, table %s", status, table)
	}
}

// measured returns the results of a study that do not depend on the speed of the machine.
func measured(t *testing.T, out string) map[string]string {
	t.Helper()
	dir := filepath.Join(out, effectaug.Name)
	records, err := study.Records(dir)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]string{}
	for _, r := range records {
		var curve []byte // Weights that are not trained have none.
		if r.Curve != "" {
			if curve, err = os.ReadFile(filepath.Join(dir, r.Curve)); err != nil {
				t.Fatal(err)
			}
		}
		if _, twice := left[r.Cell]; twice {
			t.Errorf("%s is recorded twice", r.Cell)
		}
		left[r.Cell] = fmt.Sprint(math.Float64bits(r.Value), r.Details["loss"], r.Details["effective_rank"], r.ConfigHash) + string(curve)
	}
	return left
}

func TestKilledAtAnyMomentGoesOn(t *testing.T) {
	m := newMachine(t)
	whole, killed := t.TempDir(), t.TempDir()
	begun := time.Now()
	if _, stderr, status := outcome(t, onGo(semcon(t, m, append(tinyStudy, "--out", whole)...))); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	took := time.Since(begun)
	random := rand.New(rand.NewPCG(uint64(begun.UnixNano()), 0))
	kills := 0
	for attempt := 0; ; attempt++ {
		c := onGo(semcon(t, m, append(tinyStudy, "--out", killed)...))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// Early attempts get less than half of the time. Later ones get more, so that the test ends.
		limit := time.Duration((0.1 + 0.4*random.Float64() + 0.1*float64(attempt)) * float64(took))
		timer := time.AfterFunc(limit, func() { c.Process.Kill() })
		err := c.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		if c.ProcessState.ExitCode() != -1 {
			t.Fatalf("attempt %d failed by itself: %v", attempt, err)
		}
		kills++
	}
	want, got := measured(t, whole), measured(t, killed)
	if len(want) != 3 || len(got) != len(want) {
		t.Errorf("%d records, %d after %d kills; want 3", len(want), len(got), kills)
	}
	for cell, text := range want {
		if got[cell] != text {
			t.Errorf("%s differs after %d kills", cell, kills)
		}
	}
	t.Logf("killed %d times", kills)
}

// TestDiskFull limits the size of files, so that a write fails midway, and then removes the limit.
// TestWhatCannotBeWrittenIsRefusedFirst gives outputs below a file. The weights do not exist, which would be found next.
func TestWhatCannotBeWrittenIsRefusedFirst(t *testing.T) {
	m, dir := newMachine(t), t.TempDir()
	write(t, nil, dir, "file")
	file := filepath.Join(dir, "file")
	for _, args := range [][]string{
		append(slices.Clone(tinyStudy), "--out", file), append(slices.Clone(tinyStudy), "--out", filepath.Join(file, "out")),
		{"features", dir, "--weights", "none.pth", "--out", filepath.Join(file, "features.npy")},
		{"import", "none.pth", "--out", filepath.Join(file, "vit.safetensors")},
		{"notebooks", "--out", file},
	} {
		stdout, stderr, status := outcome(t, onGo(semcon(t, m, args...)))
		if status != 1 || stdout != "" {
			t.Errorf("%v: exit status %d, printed %q", args, status, stdout)
		}
		wantLine(t, stderr, "semcon "+args[0]+": --out: cannot write in ", file)
	}
}

func TestDiskFull(t *testing.T) {
	m, out := newMachine(t), t.TempDir()
	study := append(tinyStudy, "--out", out)
	c := onGo(semcon(t, m))
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -f 4 && exec "$0" "$@"`, os.Args[0]}, study...)
	_, stderr, status := outcome(t, c)
	if status != 1 || !strings.Contains(stderr, "file too large") {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	last := stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:]
	wantLine(t, last, "semcon run: ", out)
	err := filepath.WalkDir(out, func(path string, entry os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".safetensors") {
			t.Errorf("half-written: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := outcome(t, onGo(semcon(t, m, study...))); status != 0 {
		t.Errorf("with room again: exit status %d: %s", status, stderr)
	}
	if got := measured(t, out); len(got) != 3 {
		t.Errorf("%d records with room again, want 3", len(got))
	}
}

// TestTablesByThePapersNames shows one of the two tables of an experiment.
func TestTablesByThePapersNames(t *testing.T) {
	m := newMachine(t)
	for _, label := range []string{"effect_aug", "effect_aug_full", "semantic_seg", "semantic_seg_acc", "video_seg"} {
		stdout, _, status := outcome(t, semcon(t, m, "table", label))
		if title := "**Tab. " + strings.ReplaceAll(label, "_", `\_`) + "**"; status != 0 || !strings.HasPrefix(stdout, title) || strings.Count(stdout, "**Tab. ") != 1 {
			t.Errorf("table %s: exit status %d, printed %.60q", label, status, stdout)
		}
	}
	for label, want := range map[string]string{"over-disp": "**Over-dispersion**", "noise_rate": ""} { // Without records noise-rate has no table.
		if stdout, stderr, status := outcome(t, semcon(t, m, "table", label)); status != 0 || !strings.HasPrefix(stdout, want) || !strings.Contains(stderr, "no records") {
			t.Errorf("table %s: exit status %d, printed %.60q and %q", label, status, stdout, stderr)
		}
	}
	_, stderr, status := outcome(t, semcon(t, m, "run", "video-seg"))
	if status != 2 {
		t.Errorf("exit status %d", status)
	}
	wantLine(t, stderr, `"video-seg": did you mean video_seg?`)
	if _, stderr, status := outcome(t, onGo(semcon(t, m, "run", "effect_aug", "--set", "speed=3"))); status != 2 || !strings.Contains(stderr, `"speed"`) {
		t.Errorf("run effect_aug: exit status %d, %s", status, stderr)
	}
}

func TestTableNamesTheProfilesThatHaveRuns(t *testing.T) {
	records := []study.Record{{Profile: study.Smoke}, {Profile: study.Full}, {Profile: study.Smoke}}
	if others := study.OtherProfiles(records, study.Quick); !slices.Equal(others, []string{"full", "smoke"}) {
		t.Errorf("runs of %v", others)
	}
	if others := study.OtherProfiles(records, study.Smoke); others != nil {
		t.Errorf("%v where there are runs", others)
	}
}

func TestAnExperimentThatMakesItsDataRefusesAFolder(t *testing.T) {
	m := newMachine(t)
	args := []string{"run", "noise-tolerance", "--profile", "smoke", "--only", "bce/flipped0", "--out", "records"}
	_, stderr, status := outcome(t, onGo(semcon(t, m, append(args, "--data", "photos")...)))
	if wantLine(t, stderr, "--data photos", "noise-tolerance"); status != 2 {
		t.Errorf("exit status %d", status)
	}
	set := onGo(semcon(t, m, args...))
	set.Env = append(set.Env, "SEMCON_DATA=photos") // Meant for other experiments.
	if _, stderr, status := outcome(t, set); status != 0 {
		t.Errorf("with $SEMCON_DATA: exit status %d, %s", status, stderr)
	}
}

// TestPhotographsOfTeacherQualityAreChosenByFiles: a folder that the environment names does not choose them, and one that the command names asks for the files.
func TestPhotographsOfTeacherQualityAreChosenByFiles(t *testing.T) {
	m := newMachine(t)
	args := []string{"status", "teacher-quality", "--profile", "smoke", "--only", "start"}
	fromEnvironment := onGo(semcon(t, m, args...))
	fromEnvironment.Env = append(fromEnvironment.Env, "SEMCON_DATA="+t.TempDir())
	if stdout, stderr, status := outcome(t, fromEnvironment); status != 0 || !strings.Contains(stdout, "start/share0/none/seed0") {
		t.Errorf("with $SEMCON_DATA: exit status %d, %s%s", status, stdout, stderr)
	}
	_, stderr, status := outcome(t, onGo(semcon(t, m, append(args, "--data", t.TempDir())...)))
	if wantLine(t, stderr, "--set init=FILE", "pretrain"); status == 0 {
		t.Error("without files: exit status 0")
	}
}

func TestBrokenLinesAmongRecordsAreNamedAndRepaired(t *testing.T) {
	m := newMachine(t)
	if _, stderr, status := outcome(t, onGo(semcon(t, m, "run", "noise-tolerance", "--profile", "smoke", "--out", "records"))); status != 0 {
		t.Fatal(stderr)
	}
	path := filepath.Join(m.Checkout, "records", "noise-tolerance", "runs.jsonl")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, append([]byte("{}\n"), content...), path)
	for _, args := range [][]string{{"table", "noise-tolerance"}, {"claims"}, {"run", "noise-tolerance"}} {
		stdout, stderr, status := outcome(t, onGo(semcon(t, m, append(args, "--profile", "smoke", "--out", "records")...)))
		if status != 0 || !strings.Contains(stderr, "runs.jsonl, line 1 is not a record: the cell is missing") {
			t.Errorf("%v: exit status %d, %s%s", args, status, stdout, stderr)
		}
	}
	stdout, _, _ := outcome(t, semcon(t, m, "table", "noise-tolerance", "--profile", "smoke", "--out", "records"))
	if !strings.Contains(stdout, "Left out as damaged: 1 line of runs.jsonl.") {
		t.Errorf("the table does not say that it leaves a line out: %s", stdout)
	}
	stdout, _, _ = outcome(t, onGo(semcon(t, m, "doctor", "--repair", "--out", "records")))
	if !strings.Contains(stdout, "1 broken line moved to") {
		t.Errorf("doctor --repair: %s", stdout)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
		t.Errorf("repaired to %q, %v", after, err)
	}
	for _, verb := range []string{"table", "claims"} {
		args := []string{verb, "--out", "nowhere"}
		if verb == "table" {
			args = append(args, "noise-tolerance")
		}
		if _, stderr, status := outcome(t, semcon(t, m, args...)); status != 1 || !strings.Contains(stderr, "--out nowhere") {
			t.Errorf("%v: exit status %d, %s", args, status, stderr)
		}
	}
}
