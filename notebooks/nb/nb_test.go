package nb

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/experiments/noisetolerance"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/experiments/teacherquality"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
)

// cells holds the actions of the test binary when it acts as a cell's process, by the value of NB_TEST_CELL.
var cells = map[string]func(){
	"check":   func() { must.M(nil); must.M(errors.New("\ndata/x.png: truncated\nstack")) },
	"must":    func() { must.M1(os.Open("/no/such/file")) },
	"profile": func() { Profile() },
	"draws":   draw, "printed": showPrinted, "shows": showEverything,
	"waits":  waitOnABar,
	"trains": func() { Context(); train(func() { <-Context().Done() }) },
	"busy":   func() { Context(); train(func() { select {} }) },
	"sleeps": func() { train(func() { time.Sleep(time.Minute) }) },
}

func TestMain(m *testing.M) {
	if cell := cells[os.Getenv("NB_TEST_CELL")]; cell != nil {
		cell()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// cell returns the command of a process that acts as a cell.
func cell(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(append(os.Environ(), "NB_TEST_CELL="+name), env...)
	return c
}

func TestErrorsEndTheCellWithOneLine(t *testing.T) {
	for _, test := range []struct{ cell, env, want string }{
		{"check", "A=", "error: data/x.png: truncated\n"},
		{"must", "A=", "error: open /no/such/file: no such file or directory\n"},
		{"profile", "SEMCON_PROFILE=huge", "error: SEMCON_PROFILE: "},
	} {
		out, err := cell(t, test.cell, test.env).CombinedOutput()
		if failed := new(exec.ExitError); !errors.As(err, &failed) || failed.ExitCode() != 1 {
			t.Errorf("%s: %v, want exit status 1", test.cell, err)
		}
		if !strings.HasPrefix(string(out), test.want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s says %q, want %q", test.cell, out, test.want)
		}
	}
}

func TestMustReturnsTheValue(t *testing.T) {
	if got := must.M1(7, nil); got != 7 {
		t.Errorf("must.M1(7, nil) = %d", got)
	}
}

func TestBackendIsOpenedOnceAndComputes(t *testing.T) {
	if Backend() != Backend() {
		t.Error("two calls, two backends")
	}
	sum := must.M1(graph.CallOnce(Backend(), func(x *graph.Node) *graph.Node { return graph.ReduceAllSum(x) }, []float32{1, 2, 3}))
	if sum.Value() != float32(6) {
		t.Errorf("1+2+3 = %v", sum.Value())
	}
}

func TestFoldersAndProfile(t *testing.T) {
	for _, name := range []string{"SEMCON_PROFILE", "SEMCON_DATA", "SEMCON_OUT"} {
		t.Setenv(name, "")
	}
	checkout := must.M1(filepath.Abs("../.."))
	if Profile() != study.Quick || Data() != "" || Out() != filepath.Join(checkout, "out") {
		t.Errorf("by default %q, %q, %q", Profile(), Data(), Out())
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("SEMCON_PROFILE", "smoke")
	t.Setenv("SEMCON_DATA", "data")
	t.Setenv("SEMCON_OUT", "results")
	if Profile() != study.Smoke || Data() != filepath.Join(dir, "data") || Out() != filepath.Join(dir, "results") {
		t.Errorf("from the environment %q, %q, %q", Profile(), Data(), Out())
	}
}

func TestPhotographsPreferThePublishedEncoder(t *testing.T) {
	t.Setenv("SEMCON_OUT", t.TempDir())
	published := t.TempDir()
	t.Setenv("SEMCON_VITS14", published)
	viewer, encoder := Photographs(224)
	if filepath.Base(encoder.File) != "encoder.safetensors" || len(viewer.Names) != 2 {
		t.Errorf("without a published encoder: %q, photographs %q", encoder.File, viewer.Names)
	}
	small := must.M1(os.ReadFile(encoder.File))
	must.M(os.WriteFile(filepath.Join(published, "model.safetensors"), small, 0o644))
	if _, encoder = Photographs(224); encoder.File != filepath.Join(published, "model.safetensors") {
		t.Errorf("with a published encoder: %q", encoder.File)
	}
}

// TestOptionsTakeWhatTheDataFolderHas: a folder with CIFAR-10 alone is data for the experiments that train on it, and no error for others.
func TestOptionsTakeWhatTheDataFolderHas(t *testing.T) {
	data := t.TempDir()
	t.Setenv("SEMCON_DATA", data)
	for _, file := range []string{"data_batch_1.bin", "test_batch.bin"} {
		must.M(os.WriteFile(filepath.Join(data, file), make([]byte, 3073), 0o644))
	}
	if got := Options(effectaug.Study).Data; got != data {
		t.Errorf("effect-aug: %q, want %q", got, data)
	}
	for _, of := range []interface{ DataFor(study.Options) string }{pretrain.Study, teacherquality.Study, noisetolerance.Study} {
		if got := Options(of).Data; got != "" {
			t.Errorf("%T: %q of a folder with CIFAR-10 alone", of, got)
		}
	}
}

func TestPlainText(t *testing.T) {
	html := "<style>\n</style><table>\n <tr><th>row</th><th>ours</th></tr>\n <tr><td>a &lt; b</td><td>1</td></tr>\n <tr><td> </td><td></td></tr><tr><td></td><td>2</td></tr></table>\n<p>two<br>lines</p>"
	if got, want := plainText(html), "row\tours\na < b\t1\n\t2\ntwo\nlines"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBarHTML(t *testing.T) {
	state := progress.NewState("a<b", 8, time.Now())
	state.Set(2, "loss <1", time.Now())
	html := barHTML(state)
	for _, want := range []string{"a&lt;b", `value="0.2500"`, "2/8  25%", "loss &lt;1"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q in %s", want, html)
		}
	}
}

func TestTerminalGetsPlainText(t *testing.T) {
	out, err := cell(t, "shows").Output()
	if want := "a\tb\n[figure]\n"; err != nil || string(out) != want {
		t.Errorf("printed %q, %v; want %q", out, err, want)
	}
}
