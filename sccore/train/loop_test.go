package train_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/train"
)

// counter is a Trainable whose only weight is the sum of the numbers of the steps taken.
type counter struct {
	steps, done, sum int
	fail             func(ctx context.Context, step int) error
}

func (c *counter) Steps() int { return c.steps }
func (c *counter) Done() int  { return c.done }

func (c *counter) Step(ctx context.Context) (int, error) {
	if c.fail != nil {
		if err := c.fail(ctx, c.done); err != nil {
			return 0, err
		}
	}
	c.done++
	c.sum += c.done
	return c.sum, nil
}

func (c *counter) Save(path, note string) error {
	content, err := json.Marshal([]any{c.done, c.sum, note})
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func (c *counter) Resume(path string) (note string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(content, &[]any{&c.done, &c.sum, &note}); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return note, nil
}

// journal records the calls of After.
type journal struct {
	Steps     []int
	Evaluated map[string]float64
}

// loopOf returns a loop over a new counter, as in a new process, and its journal.
func loopOf(dir string) (*train.Loop[int], *counter, *journal) {
	c, j := &counter{steps: 7}, &journal{Evaluated: map[string]float64{}}
	return &train.Loop[int]{
		Trainer: c, Dir: dir, Final: "final.safetensors", Note: j,
		Evaluators: []train.Evaluator{
			{Name: "sum", Every: 3, Evaluate: func(context.Context) (map[string]float64, error) {
				return map[string]float64{"plain": float64(c.sum), "twice": 2 * float64(c.sum)}, nil
			}},
			{Name: "off", Evaluate: func(context.Context) (map[string]float64, error) { return nil, errors.New("is off") }},
		},
		After: func(step int, evaluated map[string]float64) error {
			j.Steps = append(j.Steps, step)
			for name, value := range evaluated {
				j.Evaluated[fmt.Sprintf("%s after %d", name, c.done)] = value
			}
			return nil
		},
	}, c, j
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestLoopAfterKillsEqualsOneThatNeverStopped kills a run, and stops it, at every step, with checkpoints after every step and with checkpoints only at a stop.
func TestLoopAfterKillsEqualsOneThatNeverStopped(t *testing.T) {
	whole, _, want := loopOf(t.TempDir())
	if err := whole.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(want.Steps) != 7 || len(want.Evaluated) != 6 || want.Evaluated["sum/twice after 7"] != 56 {
		t.Fatalf("journal %+v", want)
	}
	killed := errors.New("killed")
	for at := range 7 {
		for _, every := range []time.Duration{0, time.Hour} {
			for _, how := range []string{"kill in a step", "kill after a step", "stop before a step", "stop in a step", "stop after a step", "stop in an evaluation"} {
				t.Run(fmt.Sprintf("%s/%d/%s", how, at, every), func(t *testing.T) {
					dir := t.TempDir()
					loop, c, _ := loopOf(dir)
					loop.Every = every
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					interrupt := func(step int) error {
						if step != at {
							return nil
						}
						if strings.HasPrefix(how, "kill") {
							return killed
						}
						stop()
						if how == "stop in a step" {
							return ctx.Err()
						}
						return nil
					}
					switch how {
					case "kill after a step", "stop after a step":
						after := loop.After
						loop.After = func(step int, evaluated map[string]float64) error {
							return errors.Join(after(step, evaluated), interrupt(c.done-1))
						}
					case "stop in an evaluation":
						loop.Evaluators = append(loop.Evaluators, train.Evaluator{Name: "last", Every: 1, Evaluate: func(ctx context.Context) (map[string]float64, error) {
							_ = interrupt(c.done - 1)
							return nil, ctx.Err()
						}})
					default:
						c.fail = func(_ context.Context, step int) error { return interrupt(step) }
					}
					err := loop.Run(ctx)
					switch {
					case strings.HasPrefix(how, "kill") && !errors.Is(err, killed):
						t.Fatalf("killed: %v", err)
					case strings.HasPrefix(how, "stop") && err != nil && !errors.Is(err, context.Canceled):
						t.Fatalf("stopped: %v", err)
					case err == nil && at < 6:
						t.Fatal("went on")
					}
					again, _, got := loopOf(dir)
					resumed := -1
					again.Every, again.Resumed = every, func(done int) { resumed = done }
					if err := again.Run(t.Context()); err != nil {
						t.Fatal(err)
					}
					if !reflect.DeepEqual(got, want) {
						t.Errorf("journal %+v, want %+v", got, want)
					}
					if how == "stop before a step" && resumed != at+1 || how == "stop after a step" && resumed != at+1 || how == "stop in a step" && at > 0 && resumed != at {
						t.Errorf("stopped at step %d, resumed after %d", at, resumed)
					}
				})
			}
		}
	}
}

func TestLoopKeepsAndCleans(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".writing-step-000000001.safetensors.1", "curve.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loop, c, _ := loopOf(dir)
	if err := loop.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir), []string{"curve.jsonl", "final.safetensors", "step-000000005.safetensors", "step-000000006.safetensors"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	if err := loop.Clean(); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir), []string{"curve.jsonl", "final.safetensors"}; !slices.Equal(got, want) {
		t.Errorf("cleaned, files %q, want %q", got, want)
	}
	// A finished run is not trained again.
	again, c2, j := loopOf(dir)
	c2.fail = func(context.Context, int) error { return errors.New("trained again") }
	if err := again.Run(t.Context()); err != nil || c2.sum != c.sum || len(j.Steps) != 7 {
		t.Errorf("sum %d, want %d, %d steps in the note, %v", c2.sum, c.sum, len(j.Steps), err)
	}
}

// TestLoopResumesEarlierVersions resumes from the single, unnumbered checkpoint of earlier versions, which is removed as soon as there are two
// others.
func TestLoopResumesEarlierVersions(t *testing.T) {
	dir := t.TempDir()
	old := counter{steps: 7, done: 2, sum: 3}
	if err := old.Save(filepath.Join(dir, "checkpoint.safetensors"), `{"Steps": [1, 3], "Evaluated": {}}`); err != nil {
		t.Fatal(err)
	}
	loop, _, j := loopOf(dir)
	loop.Final = ""
	if err := loop.Run(t.Context()); err != nil || !slices.Equal(j.Steps, []int{1, 3, 6, 10, 15, 21, 28}) {
		t.Errorf("%v, %v", j, err)
	}
	if got, want := files(t, dir), []string{"step-000000005.safetensors", "step-000000006.safetensors"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestLoopSaysHowToStartAfresh(t *testing.T) {
	for name, content := range map[string]string{"broken": "half a", "foreign": `[1, 1, "{\"Steps\": 5}"]`} {
		for _, file := range []string{"step-000000003.safetensors", "checkpoint.safetensors", "final.safetensors"} {
			dir := t.TempDir()
			path := filepath.Join(dir, file)
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			loop, _, _ := loopOf(dir)
			err := loop.Run(t.Context())
			if want := "(remove " + dir + " to start this run afresh)"; err == nil || !strings.Contains(err.Error(), path) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: error %v, want one with the file and %q", name, err, want)
			}
		}
	}
}

func TestLoopTellsOfPhases(t *testing.T) {
	loop, _, _ := loopOf(t.TempDir())
	started := false
	loop.Start = func() error { started = true; return nil }
	var phases []string
	loop.Phase = func(phase string) { phases = append(phases, phase) }
	if err := loop.Run(t.Context()); err != nil || !started {
		t.Fatal(err, started)
	}
	evaluated := []string{progress.Training, progress.Measuring, progress.Training, progress.Measuring, progress.Training, progress.Measuring, progress.Training}
	if want := append([]string{progress.Compiling}, evaluated...); !slices.Equal(phases, want) {
		t.Errorf("phases %q, want %q", phases, want)
	}
}

func TestEvaluatorErrorsNameTheEvaluator(t *testing.T) {
	loop, _, _ := loopOf(t.TempDir())
	loop.Evaluators[1].Every = 2
	if err := loop.Run(t.Context()); err == nil || err.Error() != "off after step 2: is off" {
		t.Errorf("error %v", err)
	}
}

// A step can leave weights that are not finite. The next loss would say so, but an evaluator may see them first.
func TestAnEvaluatorThatSeesWeightsThatAreNotFiniteSaysThatTheRunDiverged(t *testing.T) {
	loop, _, _ := loopOf(t.TempDir())
	loop.Evaluators[1].Every = 2
	loop.Evaluators[1].Evaluate = func(context.Context) (map[string]float64, error) {
		return nil, fmt.Errorf("image 3: its features are not finite: %w", safetensors.CheckFinite([]float32{1, float32(math.NaN())}))
	}
	err := loop.Run(t.Context())
	if want := "off after step 2: the loss diverged: image 3: its features are not finite: entry 1 is NaN"; !errors.Is(err, train.ErrDiverged) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestEvaluatorsDoNotDisturbTraining compares the last checkpoints of runs with and without an evaluator that reads the weights.
func TestEvaluatorsDoNotDisturbTraining(t *testing.T) {
	trainer := newTrainer(t, testbackend.Fastest(t), leastSquares(9, 1, 0.1))
	var curves [2][]float64
	var ends [2]string
	for i, every := range []int{0, 2} {
		loop := train.Loop[float64]{
			Trainer: trainer, Dir: t.TempDir(), Every: time.Hour, Start: func() error { return trainer.Begin(5) },
			Evaluators: []train.Evaluator{{Name: "weight", Every: every, Evaluate: func(context.Context) (map[string]float64, error) {
				value := trainer.Store().GetVariable("/online/weight").MustValue().Value().([]float32)
				return map[string]float64{"first": float64(value[0])}, nil
			}}},
			After: func(_ float64, evaluated map[string]float64) error {
				if evaluated != nil {
					curves[i] = append(curves[i], evaluated["weight/first"])
				}
				return nil
			},
		}
		if err := loop.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends[i] = state(t, trainer)
	}
	if ends[0] != ends[1] {
		t.Error("evaluators change the weights")
	}
	if len(curves[0]) != 0 || len(curves[1]) != 5 || curves[1][0] == curves[1][4] {
		t.Errorf("evaluated %v without, %v with an evaluator every 2 of 9 steps", curves[0], curves[1])
	}
}

// TestLoopGoesOnFromAnOlderCheckpoint damages the newest files of a run and expects the same end.
func TestLoopGoesOnFromAnOlderCheckpoint(t *testing.T) {
	whole, _, want := loopOf(t.TempDir())
	if err := whole.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]string{{"step-000000006"}, {"final"}, {"final", "step-000000006"}} {
		dir := t.TempDir()
		first, _, _ := loopOf(dir)
		if err := first.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(damaged, "final") {
			if err := os.Remove(filepath.Join(dir, "final.safetensors")); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range damaged {
			if err := os.Truncate(filepath.Join(dir, name+".safetensors"), 5); err != nil {
				t.Fatal(err)
			}
		}
		again, _, got := loopOf(dir)
		var told []string
		again.Damaged = func(keptAs string, err error) { told = append(told, filepath.Base(keptAs)+": "+err.Error()) }
		if err := again.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v damaged: journal %+v, want %+v", damaged, got, want)
		}
		if len(told) != len(damaged) || !strings.HasPrefix(told[0], damaged[0]+".safetensors.damaged: "+dir) {
			t.Errorf("%v damaged: told %q", damaged, told)
		}
	}
}
