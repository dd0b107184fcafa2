package teacherquality

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

// phases are those that a bar has shown.
type phases struct {
	progress.Bar
	shown *[]string
}

func (p phases) Phase(name string) { *p.shown = append(*p.shown, name) }

// TestTeacherQualityOnPhotographs runs on photographs from the files that a run on synthetic scenes has left: all conditions are recorded with the precision
// of their source, and those that run anew are the same.
func TestTeacherQualityOnPhotographs(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, out, data := testbackend.Go(t), t.TempDir(), studytest.VOC(t)
	var shown []string
	bar := func(string, int) progress.Bar { return phases{progress.Discard, &shown} }
	if err := Study.Run(t.Context(), b, study.Options{Profile: study.Smoke, Out: out, Only: []string{"cotap/share1/teacher4"}, Set: small, Bar: bar}); err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("measuring compiling training measuring  ", 3) // The two files, and the run that begins from them.
	if got := strings.Join(shown, " ") + " "; got != want {
		t.Errorf("the bar says %q, want %q", got, want)
	}
	made, err := filepath.Glob(filepath.Join(out, Name, "starts", "*", "seed0.safetensors"))
	if err != nil || len(made) != 2 {
		t.Fatalf("%d starts, %v", len(made), err)
	}
	options := study.Options{Profile: study.Smoke, Out: out, Data: data, Set: []string{"init=" + made[0], "teacher=" + made[1], "recall.least=2"}}
	if err := Study.Run(t.Context(), b, options); err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]string{ // What the file decides is refused, not ignored.
		"second.encoder=vit-s16": "init=" + made[0] + " needs second.encoder=vit-16x2x2p8-grid6", "second.views.global_size=25": "needs second.views.global_size=24",
		"second.patch_head.out=7": "needs second.patch_head.out=8",
		"teacher=" + made[0]:      "has the same content as init=" + made[0],
	} {
		refused := options
		refused.Out, refused.Set = t.TempDir(), append(slices.Clone(options.Set), set)
		if err := Study.Run(t.Context(), b, refused); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	values := func(out string) map[string]float64 {
		values := map[string]float64{}
		for _, r := range studytest.Records(t, out, Name) {
			if r.Column != recipe.ColumnRecall {
				continue
			}
			values[r.Cell] = r.Value
			if taught := strings.HasSuffix(r.Row, "/teacher"); taught != strings.Contains(r.Cell, "/teacher/") || !strings.Contains(r.Data, "; teacher sha256 ") {
				t.Errorf("%s: row %s, data %s", r.Cell, r.Row, r.Data)
			}
			if precision := r.Details["precision_top1"]; strings.HasSuffix(r.Row, "/labels") && precision != 100 {
				t.Errorf("%s: precision %g", r.Row, precision)
			}
		}
		return values
	}
	got := values(out)
	if len(got) != len(conditions(study.Smoke, true)) || !strings.HasPrefix(studytest.Records(t, out, Name)[1].Cell, "voc2012/") {
		t.Errorf("recorded %v", got)
	}
	for cell, value := range got {
		if !(value >= 0 && value <= 100) {
			t.Errorf("%s: %g", cell, value)
		}
	}
	again := options
	again.Out, again.Parallel, again.Only = t.TempDir(), 2, []string{"voc2012/cotap/share1/pairs*", "voc2012/paka"}
	if err := Study.Run(t.Context(), b, again); err != nil {
		t.Fatal(err)
	}
	anew := values(again.Out)
	for cell, value := range anew {
		if value != got[cell] {
			t.Errorf("%s: %g, anew %g", cell, got[cell], value)
		}
	}
	if len(anew) != 2 {
		t.Errorf("anew %v", anew)
	}
	results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
	if err != nil {
		t.Fatal(err)
	}
	tables := tables(results)
	if len(tables) != 4 { // Tables of photographs and of scenes.
		t.Fatal(len(tables))
	}
	row := regexp.MustCompile(`\| \+ PaKA \| 1 → 0\.\d+ \| the run's own branches \|`)
	if text := tables[0].Markdown(); !row.MatchString(text) || !strings.Contains(text, "on photographs") {
		t.Errorf("table\n%s", text)
	}
	if !slices.ContainsFunc(tables[0].Rows, func(row figures.Row) bool { return row.Cells[1].Images.N > 0 }) {
		t.Error("no gain has an interval over test images")
	}
	if gains := Gains(results, true); len(gains.Series) != 2 || len(gains.Series[0].X)+len(gains.Series[1].X) != 5 {
		t.Errorf("%d series", len(gains.Series))
	}
}

func TestTeacherQualityOptionsOnPhotographs(t *testing.T) {
	data, start := studytest.VOC(t), filepath.Join(t.TempDir(), "start.safetensors")
	if err := os.WriteFile(start, []byte("no weights"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		data string
		set  []string
		want string
	}{
		{data, nil, "--set init=FILE is missing"},
		{data, []string{"init=" + start}, "--set teacher=FILE is missing"},
		{t.TempDir(), []string{"init=" + start, "teacher=" + start}, "no PASCAL VOC"},
		{data, []string{"init=" + start, "teacher=" + start}, "--set init=" + start},
		{data, []string{"init=" + start, "teacher=" + start, "recall.classes=background"}, "one class has nothing"},
		{data, []string{"init=" + start, "teacher=" + start, "images=7"}, "images is a setting of synthetic images"},
		{data, []string{"init=" + start, "teacher=" + start, "first.steps=9"}, "first.steps is a setting of synthetic images"},
		{"", []string{"init=" + start}, "with --data"},
	} {
		err := Study.Run(t.Context(), nil, study.Options{Profile: study.Smoke, Out: t.TempDir(), Data: c.data, Set: c.set})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
	}
	if _, _, err := Study.Datasets(study.Options{Data: data}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without files: %v", err)
	}
}
