package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/janpfeifer/must"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/experiments/theory"
	"github.com/semcon/semcon/sccore/study"
)

// The tasks that are no experiments: training on a folder, features of a folder, and an experiment on a damaged cache of compiled programs.
const trainTask, featuresTask, cacheTask = "train", "features", "xla-cache"

// runsBefore names the task whose results another one needs: the weights of a training, and the encoders that the theory measures.
var runsBefore = map[string]string{featuresTask: trainTask, theory.Name: effectaug.Name}

// tortureTasks returns the names of everything that can be tortured on an engine.
func tortureTasks(engine string) (names []string) {
	names = lo.Map(experiments.All(), func(e study.Experiment, _ int) string { return e.Name })
	if names = append(names, trainTask, featuresTask); engine != "go" {
		names = append(names, cacheTask)
	}
	return names
}

var (
	tortureMinutes = flag.Float64("minutes", 0, "`TIME` in minutes, after which the last experiment ends without more kills; 0 for no torture")
	tortureSeed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "`NUMBER` that draws the moments; they still depend on the speed of the machine")
	tortured       = flag.String("experiment", "", "torture this `EXPERIMENT` alone, or train, features or xla-cache; by default all in turn")
	tortureBinary  = flag.String("semcon", "", "`FILE` of the binary; by default it is built")
)

// TestKilledRunsEndAsOthers kills commands at random moments until they end, and compares what they leave with an uninterrupted run:
//
//	go test ./cmd/semcon -run KilledRuns -v -timeout 0 -minutes 3
//
// It runs all experiments, "semcon train" and "semcon features" in smoke profiles on the engine that $GOMLX_BACKEND names, one after the other in the order
// that the seed draws, with short times between checkpoints. On XLA it also runs two processes at once on a cache of compiled programs whose entries it
// damages. Each kill is a SIGKILL, which no program can answer. If anything differs, the two folders are kept.
func TestKilledRunsEndAsOthers(t *testing.T) {
	if *tortureMinutes == 0 {
		t.Skip("-minutes TIME kills for so long")
	}
	names := tortureTasks(os.Getenv("GOMLX_BACKEND"))
	rand.New(rand.NewPCG(*tortureSeed, 1)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if *tortured != "" {
		names = []string{*tortured}
	}
	t.Logf("seed %d, engine %s", *tortureSeed, cmp.Or(os.Getenv("GOMLX_BACKEND"), "as semcon chooses"))
	if err := runTorture(t.Output(), names, *tortureBinary, *tortureSeed, *tortureMinutes); err != nil {
		t.Error(err)
	}
}

// runTorture tortures tasks for some minutes, and says what it did.
func runTorture(out io.Writer, names []string, binary string, seed uint64, minutes float64) error {
	t := torture{out: out, random: rand.New(rand.NewPCG(seed, 0)), wholes: map[string]whole{}}
	if err := exceptions.TryCatch[error](func() { t.all(names, binary, time.Duration(minutes*float64(time.Minute))) }); err != nil {
		return err
	}
	if t.runs == 0 {
		return errors.New("nothing ran")
	}
	fmt.Fprintf(out, "%d kills of %d runs, %d files and %d records compared: all are the same\n", t.kills, t.runs, t.files, t.records)
	return nil
}

// torture is what one call does.
type torture struct {
	out      io.Writer
	random   *rand.Rand
	deadline time.Time
	dir      string // Of the binary and all runs.
	binary   string
	wholes   map[string]whole

	kills, runs, files, records int
}

// whole is an uninterrupted run.
type whole struct {
	out  string
	took time.Duration
}

// all tortures the experiments in turn until the time is over, each one at least once if there is time for its uninterrupted run. Like what it calls it panics
// with an error.
func (t *torture) all(names []string, binary string, length time.Duration) {
	t.dir = must.M1(os.MkdirTemp("", "torture"))
	if t.binary = binary; binary == "" {
		t.binary = filepath.Join(t.dir, "semcon")
		if built, err := exec.Command("go", "build", "-o", t.binary, "github.com/semcon/semcon/cmd/semcon").CombinedOutput(); err != nil {
			panic(fmt.Errorf("go build: %w\n%s", err, built))
		}
	}
	t.deadline = time.Now().Add(length)
	must.M(synthetic.WriteFolder(filepath.Join(t.dir, "photos"), synthetic.Images(60, 48, 0)))
	for i := 0; i == 0 || time.Now().Before(t.deadline); i++ {
		if err := exceptions.TryCatch[error](func() { t.one(names[i%len(names)]) }); err != nil {
			panic(fmt.Errorf("%w\nthe runs are kept in %s", err, t.dir))
		}
	}
	must.M(os.RemoveAll(t.dir))
}

// whole returns the uninterrupted run of a task, which it makes once.
func (t *torture) whole(name string) whole {
	want, ok := t.wholes[name]
	if ok {
		return want
	}
	if first := runsBefore[name]; first != "" {
		t.whole(first)
	}
	want.out = filepath.Join(t.dir, name, "whole")
	begun := time.Now()
	t.start(name, want.out, 20*time.Second, 0)
	if want.took = time.Since(begun); name == cacheTask {
		want.took /= 10 // The next run finds its programs.
	}
	t.wholes[name] = want
	return want
}

// one kills a task until it ends, and compares.
func (t *torture) one(name string) {
	want := t.whole(name)
	if t.runs > 0 && time.Now().After(t.deadline) {
		return
	}
	got, kills, begun := filepath.Join(t.dir, name, fmt.Sprintf("killed%d", t.runs)), 0, time.Now()
	for killed := true; killed; {
		// Most attempts are short against the run, and some long, so that it ends. After the time is over none is killed, except once.
		limit := time.Duration(max(1, t.random.ExpFloat64()*float64(want.took)/3))
		if kills > 0 && time.Now().After(t.deadline) {
			limit = 0
		}
		every := []time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond}[t.random.IntN(3)]
		stop := func() {}
		if name == cacheTask {
			t.damage()
			stop = t.beside(kills)
		}
		err := exceptions.TryCatch[error](func() { killed = t.start(name, got, every, limit) })
		if stop(); err != nil {
			panic(fmt.Errorf("after %d kills: %w", kills, err))
		}
		if killed {
			kills++
		}
	}
	result := must.M1(compareRuns(want.out, got))
	t.kills, t.runs, t.files, t.records = t.kills+kills, t.runs+1, t.files+result.Files, t.records+result.Records
	fmt.Fprintf(t.out, "%s: %d kills in %.1f s (%.1f s without): %d files, %d records", name, kills, time.Since(begun).Seconds(), want.took.Seconds(),
		result.Files, result.Records)
	if len(result.Differences) > 0 {
		fmt.Fprintln(t.out)
		panic(fmt.Errorf("%s differs after %d kills:\n%s", name, kills, strings.Join(result.Differences, "\n")))
	}
	fmt.Fprintln(t.out, " are the same")
	must.M(os.RemoveAll(got))
}

// damage flips a byte of a random entry of the cache of compiled programs.
func (t *torture) damage() {
	entries := must.M1(filepath.Glob(filepath.Join(t.dir, cacheTask, "programs", "*")))
	if len(entries) == 0 {
		return
	}
	entry := entries[t.random.IntN(len(entries))]
	if content, err := os.ReadFile(entry); err == nil && len(content) > 0 { // Else it has just been removed.
		content[t.random.IntN(len(content))] ^= 0x40
		must.M(os.WriteFile(entry, content, 0o666))
	}
}

// beside starts the same task in another folder, and returns what kills it.
func (t *torture) beside(number int) (kill func()) {
	c := t.command(cacheTask, filepath.Join(t.dir, cacheTask, fmt.Sprintf("beside%d", number)), 0)
	if c.Start() != nil {
		return func() {}
	}
	return func() {
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		c.Wait()
	}
}

// command is the call of a task.
func (t *torture) command(name, out string, checkpointEvery time.Duration) *exec.Cmd {
	args := []string{"run", name, "--profile", "smoke", "--out", out, "--checkpoint-every", checkpointEvery.String()}
	switch name {
	case trainTask:
		args = []string{"train", filepath.Join(t.dir, "photos"), "--profile", "smoke", "--out", out, "--checkpoint-every", checkpointEvery.String()}
	case featuresTask:
		args = []string{"features", filepath.Join(t.dir, "photos"), "--weights", filepath.Join(t.wholes[trainTask].out, "encoder.safetensors"),
			"--out", filepath.Join(out, "features.safetensors"), "--patches", "--batch", "4"}
	case cacheTask:
		args[1] = "pretrain"
	}
	c := exec.Command(t.binary, args...)
	c.Env = append(os.Environ(), "SEMCON_DATA=")
	if name == cacheTask {
		c.Env = append(c.Env, "SEMCON_XLA_CACHE="+filepath.Join(t.dir, cacheTask, "programs"))
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Its children are killed with it.
	return c
}

// start runs a task and kills it after a time, if that is positive. It panics with an error if the run fails by itself.
func (t *torture) start(name, out string, checkpointEvery, limit time.Duration) (killed bool) {
	if _, err := os.Stat(out); name == theory.Name && err != nil { // It looks for encoders in its own folder.
		must.M(os.CopyFS(out, os.DirFS(t.wholes[effectaug.Name].out)))
	}
	c := t.command(name, out, checkpointEvery)
	var stderr bytes.Buffer
	c.Stdout, c.Stderr = &stderr, &stderr
	must.M(c.Start())
	if limit > 0 {
		timer := time.AfterFunc(limit, func() { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
		defer timer.Stop()
	}
	err := c.Wait()
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && limit > 0 && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		said := strings.TrimSpace(stderr.String())
		panic(fmt.Errorf("%s: %w: %s", strings.Join(c.Args[1:], " "), err, said[strings.LastIndexAny(said, "\r\n")+1:]))
	}
	return false
}

// fake is an experiment that differs as DIFFERENCE says if an earlier call was killed.
const fake = `#!/bin/sh
out=$6/$2
case "$DIFFERENCE" in fails) echo 'semcon run: no' >&2; exit 1;; esac
[ -e "$out" ] && killed=yes
mkdir -p "$out/cells"
sleep 0.3
echo $$ > "$out/cells/lock"
echo done > "$out/cells/final"
sed "s/SECONDS/$$/" "$RECORD" > "$out/runs.jsonl.lock" && mv "$out/runs.jsonl.lock" "$out/runs.jsonl"
[ "$killed" ] || exit 0
case "$DIFFERENCE" in
file) printf 'Done\n' > "$out/cells/final";;
left) echo > "$out/cells/step-1";;
missing) rm "$out/cells/final";;
record) sed "s/SECONDS/1/; s/:42/:43/" "$RECORD" > "$out/runs.jsonl";;
twice) sed "s/SECONDS/1/" "$RECORD" >> "$out/runs.jsonl";;
esac
`

func TestTortureFindsWhatDiffers(t *testing.T) {
	dir := t.TempDir()
	binary, record := filepath.Join(dir, "semcon"), filepath.Join(dir, "record")
	if err := os.WriteFile(binary, []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	write := study.Record{Experiment: "fake", Cell: "a/seed0", Metric: "accuracy", Value: 42, Profile: study.Smoke, Config: study.EncodeConfig(struct{}{}), Seconds: 7}
	if err := write.Append(dir); err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(filepath.Join(dir, "runs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	line = regexp.MustCompile(`,"digest":"\w*"`).ReplaceAll(line, nil) // It changes.
	if err := os.WriteFile(record, bytes.Replace(line, []byte(`"seconds":7`), []byte(`"seconds":SECONDS`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RECORD", record)
	t.Setenv("TMPDIR", dir)
	for difference, want := range map[string]string{
		"":        "all are the same",
		"file":    "file fake/cells/final differs",
		"left":    "file fake/cells/step-1 is left over",
		"missing": "file fake/cells/final is missing",
		"record":  "record fake a/seed0, , , accuracy differs",
		"twice":   "record fake a/seed0, , , accuracy, again is left over",
		"fails":   "exit status 1: semcon run: no",
	} {
		t.Setenv("DIFFERENCE", difference)
		var out bytes.Buffer
		var err error
		for seed := uint64(5); seed == 5 || strings.Contains(out.String(), "\n0 kills of"); seed++ { // On a busy machine a run may end before its kill.
			out.Reset()
			err = runTorture(&out, []string{"fake"}, binary, seed, 0.01)
		}
		if (err == nil) != (difference == "") || !strings.Contains(fmt.Sprint(&out, err), want) {
			t.Errorf("%q: error %v, printed %s", difference, err, &out)
		}
	}
}
