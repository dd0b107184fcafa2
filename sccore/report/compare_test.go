package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/ownimages"
	"github.com/semcon/semcon/sccore/study"
)

func oneDigit(value float64) string { return strconv.FormatFloat(value, 'f', 1, 64) }

// made makes records of a line with values by seed, and their curves.
func made(t *testing.T, out, line, rate string, values ...float64) {
	t.Helper()
	dir := study.Folder(out, "lines")
	for seed, value := range values {
		curve := line + strconv.Itoa(seed) + rate + ".jsonl"
		type point struct {
			Step    int            `json:"step"`
			Loss    float64        `json:"loss"`
			Patches map[string]any `json:"patches"`
		}
		if err := study.WriteCurve(filepath.Join(dir, curve), []point{{1, 4, map[string]any{"rank": value}}, {2, 2, map[string]any{"rank": 3}}}); err != nil {
			t.Fatal(err)
		}
		r := study.Record{
			Experiment: "lines", Cell: line + "/seed" + strconv.Itoa(seed), Row: line, Column: "mIoU", Metric: "mIoU", Unit: "%", Value: value, Seed: seed, Profile: study.Quick,
			Config: []byte(`{"second":{"rate":` + rate + `},"images":8}`), ConfigHash: study.Hash([]byte(rate)), Curve: curve, Data: "scenes",
		}
		if err := r.Append(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func selected(t *testing.T, out, name string) Selection {
	t.Helper()
	s, err := Select(out, name, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCompare(t *testing.T) {
	out := t.TempDir()
	made(t, out, "line2", "0.5", 10, 12, 14, 50)
	made(t, out, "line5", "0.25", 11, 14, 17)
	c, err := Compare(selected(t, out, "lines/line2"), selected(t, filepath.Join(out, "elsewhere"), filepath.Join(out, "lines", "line5")))
	if err != nil {
		t.Fatal(err)
	}
	if want := [][3]string{{"(cell)", "line2", "line5"}, {"second.rate", "0.5", "0.25"}}; !slices.Equal(c.Settings, want) {
		t.Errorf("settings %v, want %v", c.Settings, want)
	}
	if len(c.Numbers) != 1 || !slices.Equal(c.Numbers[0].Differences, []float64{1, 2, 3}) || c.Numbers[0].Name != "mIoU" {
		t.Fatalf("numbers %+v", c.Numbers)
	}
	if got := c.Numbers[0].Means(); got != [2]string{"12", "14"} || len(c.Notes) != 1 || c.Notes[0] != "seed 3 of A does not count: the other run lacks it" {
		t.Error(got, c.Notes)
	}
	if got := c.Numbers[0].Difference(); got != "+2 [-0.4841, +4.484] (3 seeds)" { // 2 ± 4.3027·1/√3.
		t.Error(got)
	}
	if len(c.Curves) != 2 || c.Curves[0].Y != "loss" || c.Curves[1].Y != "patches.rank" || c.Curves[1].Series[1].Y[0] != 14 {
		t.Errorf("curves %+v", c.Curves)
	}
	for _, part := range []string{"second.rate  0.5    0.25", "0: +1, 1: +2, 2: +3", "patches.rank  A  12", "█▁"} {
		if text := c.Text(); !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
	file := filepath.Join(out, "compared.html")
	if err := c.Write(file); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(page), "<td>second.rate</td><td>0.5</td><td>0.25</td>", "0: &#43;1, 1: &#43;2, 2: &#43;3", `<img src="data:image/svg`)
	if external.Match(page) {
		t.Error("the page asks the network")
	}
}

// TestRunsWithSeveralNumbersAndDatasets has cells as in the experiment main: a dataset in front, and further numbers.
func TestRunsWithSeveralNumbersAndDatasets(t *testing.T) {
	out := t.TempDir()
	put := func(dataset, row string, accuracy, miou float64) {
		r := study.Record{
			Experiment: "lines", Cell: dataset + "/" + row + "/seed0", Row: row, Column: dataset, Metric: "k-NN accuracy", Unit: "%", Value: accuracy, Profile: study.Quick,
			Config: []byte("{}"), Details: map[string]float64{"linear_mIoU": miou, row: 1},
		}
		if err := r.Append(study.Folder(out, "lines")); err != nil {
			t.Fatal(err)
		}
	}
	put("synthetic", "random", 30, 5)
	put("synthetic", "own", 40, 15)
	for _, prefix := range []string{"lines/synthetic/", "lines/"} {
		c, err := Compare(selected(t, out, prefix+"random"), selected(t, out, prefix+"own"))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Numbers) != 2 || c.Numbers[0].Differences[0] != 10 || c.Numbers[1].Name != "synthetic, linear_mIoU" || c.Numbers[1].Differences[0] != 10 {
			t.Errorf("numbers %+v", c.Numbers)
		}
		for _, part := range []string{"synthetic (k-NN accuracy, %)  30", "synthetic, linear_mIoU        5"} {
			if text := c.Text(); !strings.Contains(text, part) {
				t.Errorf("%q is missing in\n%s", part, text)
			}
		}
	}
	put("synthetic", "random", 5, 5) // Its detail repeats its value, and the earlier record of the column counts no more.
	put("synthetic", "own", 15, 15)
	if c, err := Compare(selected(t, out, "lines/random"), selected(t, out, "lines/own")); err != nil || len(c.Numbers) != 1 {
		t.Errorf("numbers %+v, %v", c.Numbers, err)
	}
	put("coco", "random", 20, 4)
	_, err := Select(out, "lines/random", study.Quick)
	if err == nil || !strings.Contains(err.Error(), "several datasets have it: name one, as in coco/random/seed0, synthetic/random/seed0") {
		t.Error(err)
	}
	if _, err := Select(out, "lines/seed0", study.Quick); err == nil || !strings.Contains(err.Error(), "no recorded cell matches; there are synthetic/random/seed0") {
		t.Error(err)
	}
}

// TestCompareTakesRunsOfTrain: the last value of each column, once, and curves; the seed is a setting.
func TestCompareTakesRunsOfTrain(t *testing.T) {
	out := t.TempDir()
	write := func(name, file, content string) {
		t.Helper()
		if err := atomicfile.WriteBytes(filepath.Join(out, name, file), []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"a", "b"} {
		write(name, "run.json", fmt.Sprintf(`{"images": "folder photos", "content": "12", "init": "random weights", "seed": %d, "config": {"steps": %d}}`, i, 8+i))
		write(name, ownimages.MetricsFile, fmt.Sprintf("step,loss,rank\n0,,%d\n1,4,\n2,%d,\n", 10+i, 2+i))
	}
	c, err := Compare(selected(t, out, "a"), selected(t, "elsewhere", filepath.Join(out, "b")))
	if err != nil {
		t.Fatal(err)
	}
	if want := [][3]string{{"(cell)", "a", "b"}, {"(seed)", "0", "1"}, {"steps", "8", "9"}}; !slices.Equal(c.Settings, want) {
		t.Errorf("settings %v, want %v", c.Settings, want)
	}
	var numbers []string
	for _, p := range c.Numbers {
		numbers = append(numbers, p.Name+": "+p.Difference())
	}
	if want := []string{"last, loss: +1 (1 seed)", "last, rank: +1 (1 seed)", "last, step: +0 (1 seed)"}; !slices.Equal(numbers, want) {
		t.Errorf("numbers %q, want %q", numbers, want)
	}
	if len(c.Curves) != 1 || c.Curves[0].Y != "loss" || len(c.Notes) > 0 {
		t.Errorf("curves %+v, notes %q", c.Curves, c.Notes)
	}
	write("c", "run.json", `{"config": {}}`)
	if _, err := Select(out, "c", study.Quick); err == nil || !strings.Contains(err.Error(), "run c: the run has no metrics yet") {
		t.Error(err)
	}
}

func TestRunsThatCannotBeCompared(t *testing.T) {
	out := t.TempDir()
	made(t, out, "line2", "0.5", 10)
	made(t, out, "line2", "0.25", 11)
	made(t, out, "line3", "0.25", 11)
	hash := study.Hash([]byte("0.25"))
	for name, want := range map[string]string{
		"lines/line2":         "line2/seed0 was run with 2 configurations; choose one by @" + study.Hash([]byte("0.5")) + " or @" + hash + ": they differ in second.rate (0.5 or 0.25)",
		"lines/line9":         "no recorded cell matches; there are line2/seed0, line3/seed0",
		"none/line2":          "no records in " + filepath.Join(out, "none"),
		"lines/line[":         "syntax error in pattern",
		"lines/line2/seed0/x": "no recorded cell matches",
	} {
		if _, err := Select(out, name, study.Quick); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := Select(out, "lines", study.Full); err == nil || !strings.Contains(err.Error(), "no records of profile full") || !strings.Contains(err.Error(), "there are some of --profile quick") {
		t.Error(err)
	}
	if s := selected(t, out, "lines/line2@"+hash[:4]); len(s.Records) != 1 || s.Records[0].Value != 11 {
		t.Errorf("%+v", s.Records)
	}
}

// TestCompareMarksEarlierRecordsOfLines: earlier versions have recorded one configuration for all lines of the ablation.
func TestCompareMarksEarlierRecordsOfLines(t *testing.T) {
	out := t.TempDir()
	for row, value := range map[string]float64{"2": 10, "5": 11} {
		r := study.Record{Experiment: "ablation", Cell: "line" + row + "/seed0", Row: row, Column: "mIoU", Value: value, Profile: study.Quick, Config: []byte(`{"images":8}`), Data: "scenes"}
		if err := r.Append(study.Folder(out, "ablation")); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Compare(selected(t, out, "ablation/line2"), selected(t, out, "ablation/line5"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(c.Settings, func(row [3]string) bool {
		return row[0] == "(configuration)" && strings.Contains(row[2], "line 5 ran with a part")
	}) {
		t.Errorf("settings %v", c.Settings)
	}
}

// TestCompareSaysInWhatRunsDiffer: runs of two experiments that share no name of a number have one line that names what differs, with short values.
func TestCompareSaysInWhatRunsDiffer(t *testing.T) {
	out := t.TempDir()
	for experiment, data := range map[string]string{"video": "synthetic videos", "transfer": "PASCAL VOC train: 1464 images, sha256 of names 0123456789abcdef"} {
		for _, part := range []string{"a", "b"} {
			r := study.Record{
				Experiment: experiment, Cell: part + "/seed0", Row: experiment + part, Column: experiment + part, Metric: experiment, Profile: study.Quick, Data: data,
				Config: []byte(`{"images":` + strconv.Itoa(len(experiment)) + `,"size":32}`),
			}
			if err := r.Append(study.Folder(out, experiment)); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := Compare(selected(t, out, "video"), selected(t, out, "transfer"))
	if err == nil || !strings.HasSuffix(err.Error(), ": compare single cells with the same metric; they differ in data, experiment (video or transfer), images (5 or 8)") {
		t.Error(err)
	}
}

// TestCompareSeedBySeed: two runs with the same rates differ where each seed has another one.
func TestCompareSeedBySeed(t *testing.T) {
	run := func(name string, rates ...string) Selection {
		s := Selection{Name: name}
		for seed, rate := range rates {
			s.Records = append(s.Records, study.Record{Row: "line", Column: "mIoU", Seed: seed, Profile: study.Quick, Config: []byte(`{"rate":` + rate + `}`), Data: "scenes"})
		}
		return s
	}
	c, err := Compare(run("a", "0.1", "0.2"), run("b", "0.2", "0.1"))
	if want := [][3]string{{"rate", "0.1 (seed 0)", "0.2 (seed 0)"}}; err != nil || !slices.Equal(c.Settings, want) {
		t.Errorf("%q, %v; want %q", c.Settings, err, want)
	}
}
