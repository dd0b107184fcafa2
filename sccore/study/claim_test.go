package study

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
)

// TestUsual: a column that one seed of three has does not keep the others from counting.
func TestUsual(t *testing.T) {
	all, most, one := map[int]float64{0: 1, 1: 1, 2: 1}, map[int]float64{0: 1, 1: 1}, map[int]float64{2: 1}
	if got := Usual([]map[int]float64{all, most, one, nil}); len(got) != 2 || len(got[0]) != 3 || len(got[1]) != 2 {
		t.Errorf("%v", got)
	}
}

// TestUnusualColumnsAreNamed: what a claim is read without stands in its note.
func TestUnusualColumnsAreNamed(t *testing.T) {
	var records []Record
	for seed := range 3 {
		for _, column := range []string{"x", "y"}[:lo.Ternary(seed == 0, 2, 1)] {
			records = append(records, Record{Row: "a", Column: column, Seed: seed, Value: 1, Profile: Quick, Config: EncodeConfig(toyConfig{Steps: 3}), Data: "numbers"})
		}
	}
	claim := figures.Claim{ID: "C0", Quantity: figures.Quantity{Column: "x + y", Row: "a"}}
	if e := lo.Must(newToy().Results(records, Quick)).Evidence("", claim)[0]; len(e.Values) != 3 || e.Note != "C0 is read without y, which fewer than half of the seeds have." {
		t.Errorf("%+v", e)
	}
}

// TestClaimsOfCommonSeeds: the better of two rows is the better one where all are measured, and leaving a seed out brings no other records in.
func TestClaimsOfCommonSeeds(t *testing.T) {
	record := func(row string, seed int, value float64) Record {
		return Record{Row: row, Column: "x", Seed: seed, Value: value, Profile: Quick, Config: EncodeConfig(toyConfig{Steps: 3}), Data: "numbers"}
	}
	var records []Record
	for row, values := range map[string][]float64{"1": {40, 40, 40}, "2": {39.8, 39.9, 40.1, 45, 45}, "3": {39.5, 39.5, 39.5}} {
		for seed, value := range values {
			records = append(records, record(row, seed, value))
		}
	}
	if got := lo.Must(newToy().Results(records, Quick)).Quantity(figures.Quantity{Column: "x", Row: "3", MinusRow: "1 & 2"}); !slices.Equal(got, []float64{-0.5, -0.5, -0.5}) {
		t.Errorf("line 3 minus the better one: %v", got)
	}
	weak := record("2", 0, 40)
	for _, c := range []struct {
		data, row string
		gate      float64
	}{{"numbers", "2", 2}, {"others", "2", leastGate / 2}, {"others", "1", 0}} { // The latest data have one seed, which is weak.
		if weak.Data, weak.Row, weak.Details = c.data, c.row, map[string]float64{DetailGate: c.gate}; c.gate == 0 {
			weak.Details = nil
		}
		records = append(records, weak)
	}
	results, left := lo.Must(newToy().Results(records, Quick)).Judged(figures.Quantity{Column: "x", Row: "2", MinusRow: "1"})
	if got := results.Of("2", "x"); left != 1 || len(got) != 0 || len(results.Data("x")) != 0 {
		t.Errorf("%d seeds left out, and %v are left", left, got)
	}
}

// TestOnePretraining: encoders of one run of pretrain count, the latest without changes if there is one, and files do.
func TestOnePretraining(t *testing.T) {
	type measured struct {
		Encoder struct{ Digest, Changed, Run string }
	}
	spec := Spec[measured, Described]{
		ProfileConfig: func(_ Record, c measured) measured { return c },
		Common:        func(measured, measured) measured { return measured{} },
	}
	var records []Record
	for _, c := range []struct {
		row, run string
		seed     int
	}{{"second", "old", 0}, {"second", "old", 1}, {"second", "", 2}, {"control", "old", 0}, {"dino", "", 0}, {"second", "new", 0}, {"second", "changed", 0}} {
		var config measured
		if config.Encoder.Run = c.run; c.run == "changed" {
			config.Encoder.Changed = "steps=1"
		}
		records = append(records, Record{Row: c.row, Column: "x", Seed: c.seed, Profile: Quick, Config: EncodeConfig(config)})
	}
	results, err := spec.Results(records, Quick)
	if err != nil {
		t.Fatal(err)
	}
	if got := [3]int{len(results.Of("second", "x")), len(results.Of("control", "x")), len(results.Of("dino", "x"))}; got != [3]int{2, 0, 1} {
		t.Errorf("%v records of each row, want seeds 0 and 2 of the first, and the file", got)
	}
	if left := results.leftOut["x"]["encoders of another run of pretrain"]; left != 4 {
		t.Errorf("%d records are said to be left out, want 4: %v", left, results.leftOut)
	}
}

// TestQuantitiesOfClaims reads each form of a quantity from made-up records, of two seeds where all are there.
func TestQuantitiesOfClaims(t *testing.T) {
	config := EncodeConfig(toyConfig{Steps: 3})
	var records []Record
	for seed := range 2 {
		for key, value := range map[[2]string]float64{
			{"a", "A/x"}: 5, {"b", "A/x"}: 3, {"c", "A/x"}: 4, {"a", "B/x"}: 7, {"b", "B/x"}: 1, {"a", "C/y"}: 2, {"b", "C/y"}: 1,
		} {
			if key != [2]string{"b", "B/x"} || seed == 0 {
				records = append(records, Record{
					Cell: "cell", Row: key[0], Column: key[1], Seed: seed, Value: value, Profile: Quick, Config: config, Data: "numbers", Details: map[string]float64{"twice": 2 * value},
				})
			}
		}
	}
	results, err := newToy().Results(records, Quick)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		figures.Quantity
		want []float64
	}{
		{figures.Quantity{Column: "A/x", Row: "a"}, []float64{5, 5}},
		{figures.Quantity{Column: "A/x", Row: "a", Detail: "twice"}, []float64{10, 10}},
		{figures.Quantity{Column: "A/x", Row: "a", Detail: "thrice"}, nil},
		{figures.Quantity{Column: "A/x", Row: "a", MinusRow: "b"}, []float64{2, 2}},
		{figures.Quantity{Column: "A/x", Row: "a", MinusRow: "b & c"}, []float64{1, 1}},
		{figures.Quantity{Column: "B/x", Row: "a", MinusRow: "b"}, []float64{6}},
		{figures.Quantity{Column: "A/x & B/x", Row: "a", MinusRow: "b"}, []float64{4}},
		{figures.Quantity{Column: "A/x + B/x", Row: "a", MinusRow: "b"}, []float64{4}},    // Seed 1 has no B/x.
		{figures.Quantity{Column: "A/x + D/x", Row: "a", MinusRow: "b"}, []float64{2, 2}}, // No seed has D/x.
		{figures.Quantity{Column: "A/x", Row: "a", MinusRow: "b", MinusColumn: "C/y"}, []float64{1, 1}},
		{figures.Quantity{Column: "A/x", Row: "b < c < a"}, []float64{1, 1}},
		{figures.Quantity{Column: "A/x", Row: "a < b < c"}, []float64{-0.5, -0.5}},
		{figures.Quantity{Column: "B/x", Row: "b < c < a"}, nil},
		{figures.Quantity{Column: "D/x | B/x | A/x", Row: "a"}, []float64{7, 7}},
		{figures.Quantity{Column: "*/y", Row: "a"}, []float64{2, 2}},
		{figures.Quantity{Column: "*/x", Row: "z | b", MinusRow: "a | c"}, []float64{-1, -1}},
		{figures.Quantity{Column: "z", Row: "a"}, nil},
	} {
		e := results.Evidence("", figures.Claim{Quantity: c.Quantity})[0]
		if !slices.EqualFunc(e.Values, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) || (e.Data != nil) != (c.want != nil) {
			t.Errorf("%+v: got %+v, want %v", c.Quantity, e, c.want)
		}
	}
	part := figures.Claim{ID: "C0", Experiment: "toy", Quantity: figures.Quantity{Column: "A/x & D/x & E/x", Row: "a"}}
	results.Kind = figures.Real
	if got := results.Evidence("", part)[0]; got.Note != "C0 is not read from a part of its columns: toy has no D/x and no E/x on real data." || len(got.Values) > 0 {
		t.Errorf("of a part of the columns: %+v", got)
	}
	part.Column += " | Y/z & Z/z" // Another alternative, without a record, leaves that as it is.
	if got := results.Evidence("", part)[0]; !strings.Contains(got.Note, "no D/x and no E/x") || len(got.Values) > 0 {
		t.Errorf("of a part of the columns, with an alternative: %+v", got)
	}
	// A column with "*" counts beside one without, and rows are chosen for each claim alone.
	mixed := []figures.Claim{{Quantity: figures.Quantity{Column: "A/x", Row: "a"}}, {Quantity: figures.Quantity{Column: "*/y", Row: "a | z"}},
		{Quantity: figures.Quantity{Column: "*/y", Row: "z | a", MinusRow: "a | b"}}, {Quantity: figures.Quantity{Column: "*/none", Row: "a"}}}
	for i, want := range [][]float64{{5, 5}, {2, 2}, {1, 1}, nil} {
		if got := results.Evidence("", mixed...)[i].Values; !slices.Equal(got, want) {
			t.Errorf("claim %d beside others: %v, want %v", i, got, want)
		}
	}
	if got := results.Evidence("", mixed[0], mixed[3])[0].Values; !slices.Equal(got, []float64{5, 5}) {
		t.Errorf("a claim beside one without records: %v", got)
	}
	// All claims with as many alternatives stand on the first that gives values to one of them.
	both := []figures.Claim{
		{Quantity: figures.Quantity{Column: "A/x | */y | */x", Row: "c", MinusRow: "a"}}, {Quantity: figures.Quantity{Column: "A/y | */y | */x", Row: "a"}},
		{Quantity: figures.Quantity{Column: "D/x | A/x", Row: "c"}}, {Quantity: figures.Quantity{Column: "B/x | A/x", Row: "c"}}, {Quantity: figures.Quantity{Column: "*/x", Row: "c"}},
	}
	var values [][]float64
	for _, e := range results.Evidence("", both...) {
		values = append(values, e.Values)
	}
	if want := [][]float64{{-1, -1}, nil, {4, 4}, {4, 4}, {4, 4}}; !slices.EqualFunc(values, want, slices.Equal) {
		t.Errorf("claims together: %v, want %v", values, want)
	}
}

// TestAFileServesAllSeeds pairs the one file of row fixed with a file for each seed, and counts what depends on no seed once.
func TestAFileServesAllSeeds(t *testing.T) {
	var records []Record
	for seed := range 3 {
		for row, r := range map[string]struct {
			digest string
			value  float64
		}{"fixed": {"f", 1}, "ours": {fmt.Sprint(seed), 2 + float64(seed)}, "official": {"o", 4}, "random": {"", 1}, "noisy": {"n", float64(seed)}} {
			config := EncodeConfig(map[string]any{"steps": 3, "encoder": map[string]string{"digest": r.digest}})
			records = append(records, Record{Cell: row, Row: row, Column: "x", Seed: seed, Value: r.value, Profile: Quick, Config: config, Data: "numbers"})
		}
	}
	results, err := newToy().Results(records, Quick)
	if err != nil {
		t.Fatal(err)
	}
	for rows, want := range map[[2]string][]float64{
		{"ours", "fixed"}: {1, 2, 3}, {"official", "fixed"}: {3}, {"official", "random"}: {3, 3, 3}, {"random", ""}: {1, 1, 1}, {"official", "noisy"}: {4, 3, 2},
	} {
		if got := results.Quantity(figures.Quantity{Column: "x", Row: rows[0], MinusRow: rows[1]}); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", rows, got, want)
		}
	}
}

// TestOneFileForAllSeeds: where the seeds of a row have one file of weights, tables and claims say what their spread is of. Numbers that a file gives without any training
// are equal, and need no note.
func TestOneFileForAllSeeds(t *testing.T) {
	for _, c := range []struct {
		digest string // Of which %d is the seed.
		spread float64
		noted  bool
	}{{"one", 1, true}, {"one", 0, false}, {"file%d", 1, false}, {"", 1, false}} {
		var grouped []groupedRecord
		for seed := range 3 {
			digest := strings.ReplaceAll(c.digest, "%d", fmt.Sprint(seed))
			config := fmt.Appendf(nil, `{"encoder":{"digest":%q}}`, digest)
			grouped = append(grouped, groupedRecord{Record: Record{Row: "dino", Column: "mIoU", Seed: seed, Value: 50 + c.spread*float64(seed), Config: config, Profile: Quick}})
		}
		results := resultsOf(Quick, grouped)
		table := Table{Title: "heads", Columns: Columns("", "mIoU"), RowHeads: []figures.RowHead{{Name: "encoder"}}, Rows: []Row{{Key: "dino", Heads: []string{"DINO"}}}}.Of(results)
		claim := figures.Claim{Experiment: "transfer", Quantity: figures.Quantity{Column: "mIoU", Row: "dino"}}
		note := results.Evidence("", claim)[0].Note
		if strings.Contains(table.Caption, "All seeds of dino use the same weights file") != c.noted || strings.Contains(note, "All seeds of dino in transfer use the same weights file") != c.noted {
			t.Errorf("%+v: %s; %s", c, table.Caption, note)
		}
	}
}

// TestTrainingsFromAFile tells trainings that start from a file from others, and from the evaluation of a file.
func TestTrainingsFromAFile(t *testing.T) {
	for config, want := range map[string]bool{
		`{"init": "vit.pth"}`: true, `{"weights": "vit.pth"}`: true, `{"steps": 3}`: false, `{"encoder": {"weights": "vit.pth"}}`: false, `{"weights": {"dino": 1}}`: false,
	} {
		if got := (Record{Config: []byte(config)}).start().fromFile(); got != want {
			t.Errorf("%s: %t, want %t", config, got, want)
		}
	}
}
