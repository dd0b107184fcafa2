package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/page"
	"github.com/semcon/semcon/sccore/study"
)

// Comparison is what two runs differ in.
type Comparison struct {
	Names    [2]string        `json:"runs"`
	Settings [][3]string      `json:"settings"` // Settings, data and engines that differ: a key, and its values in both runs, several of one run separated by " | ".
	Numbers  []Paired         `json:"numbers"`
	Curves   []figures.Curves `json:"-"`     // Of what both runs have recorded along the way, a series for each, means over seeds.
	Notes    []string         `json:"notes"` // Seeds that one run lacks and that do not count, and curves that cannot be read.
}

// Paired is a number of both runs.
type Paired struct {
	Name        string         `json:"name"`
	Metric      string         `json:"metric"`
	Unit        string         `json:"unit"`
	Values      [2][]float64   `json:"values"`      // By ascending seed: of the seeds that both runs have, or of all seeds if they share none.
	Seeds       []int          `json:"seeds"`       // Of both runs.
	Differences []float64      `json:"differences"` // Second minus first, for each seed of both.
	Interval    stats.Interval `json:"-"`
}

// Compare compares two runs. Numbers are paired by row, column and seed; by column or row alone if the runs have no row and column in common, such as lines of an
// ablation. Only the seeds of both runs count, if there are some. Without a number in common it is an error.
func Compare(a, b Selection) (Comparison, error) {
	c := Comparison{Names: [2]string{a.Name, b.Name}}
	if c.Names[0] == c.Names[1] {
		c.Names = [2]string{a.Name + " (first)", b.Name + " (second)"}
	}
	c.commonSeeds(&a, &b)
	c.Settings = differences(facts(a.Records), facts(b.Records))
	seed := func(r study.Record) int { return r.Seed }
	first, second := lo.GroupBy(a.Records, seed), lo.GroupBy(b.Records, seed)
	for _, seed := range slices.Sorted(maps.Keys(first)) { // Both runs may have the same values, with other seeds.
		for _, row := range differences(facts(first[seed]), facts(second[seed])) {
			if known := func(other [3]string) bool { return other[0] == row[0] }; second[seed] != nil && !slices.ContainsFunc(c.Settings, known) {
				c.Settings = append(c.Settings, [3]string{row[0], fmt.Sprintf("%s (seed %d)", row[1], seed), fmt.Sprintf("%s (seed %d)", row[2], seed)})
			}
		}
	}
	if c.Numbers = paired(a.Records, b.Records); c.Numbers == nil {
		return c, fmt.Errorf("the runs share no row, column or metric that names one number of each seed: compare single cells with the same metric; they differ in %s", brief(c.Settings))
	}
	c.curves(a, b)
	return c, nil
}

// commonSeeds leaves out the records of seeds that one run lacks, unless the runs have no seed in common.
func (c *Comparison) commonSeeds(a, b *Selection) {
	seeds := func(s *Selection) []int {
		return lo.Uniq(lo.Map(s.Records, func(r study.Record, _ int) int { return r.Seed }))
	}
	common := lo.Intersect(seeds(a), seeds(b))
	if len(common) == 0 {
		return
	}
	for i, s := range []*Selection{a, b} {
		for _, seed := range slices.Sorted(slices.Values(lo.Without(seeds(s), common...))) {
			c.Notes = append(c.Notes, fmt.Sprintf("seed %d of %s does not count: the other run lacks it", seed, []string{"A", "B"}[i]))
		}
		s.Records = lo.Filter(s.Records, func(r study.Record, _ int) bool { return slices.Contains(common, r.Seed) })
	}
}

// differences lists the facts that differ.
func differences(a, b map[string][]string) (all [][3]string) {
	text := func(values []string) string {
		return cmp.Or(strings.Join(slices.Sorted(slices.Values(values)), " | "), "—")
	}
	for _, key := range slices.Sorted(slices.Values(lo.UniqKeys(a, b))) {
		if first, second := text(a[key]), text(b[key]); first != second {
			all = append(all, [3]string{key, first, second})
		}
	}
	return all
}

// brief names in a line what differs, with both values where they are short.
func brief(differ [][3]string) string {
	const short = 40 // Characters.
	return few(lo.FilterMap(differ, func(row [3]string, _ int) (text string, ok bool) {
		if text = strings.Trim(row[0], "()"); len(row[1]+row[2]) <= short {
			text += fmt.Sprintf(" (%s or %s)", row[1], row[2])
		}
		return text, row[0] != "(cell)" && row[0] != "(versions)"
	}))
}

// paired pairs numbers by row and column, or else by the first of column, row and metric that both runs share and that names one number of each seed.
func paired(a, b []study.Record) (all []Paired) {
	for _, name := range []func(study.Record) string{
		func(r study.Record) string { return r.Row + ", " + r.Column },
		func(r study.Record) string { return r.Column },
		func(r study.Record) string { return r.Row },
		func(r study.Record) string { return r.Metric },
	} {
		first, second := bySeed(a, name), bySeed(b, name)
		for _, key := range slices.Sorted(maps.Keys(first)) {
			if second[key] == nil {
				continue
			}
			number := pair(first[key], second[key], func(r study.Record) float64 { return r.Value })
			number.Name = key
			for _, r := range second[key] {
				number.Metric, number.Unit = r.Metric, r.Unit
			}
			all = append(all, number)
			for _, detail := range details(first[key], second[key]) {
				further := pair(first[key], second[key], func(r study.Record) float64 { return r.Details[detail] })
				further.Name = key + ", " + detail // Its unit is not recorded.
				once := func(other Paired) bool {  // The numbers of a cell share their details, and some repeat the value.
					return reflect.DeepEqual(other.Values, further.Values) && (other.Name == key || strings.HasSuffix(other.Name, ", "+detail))
				}
				if !slices.ContainsFunc(all, once) {
					all = append(all, further)
				}
			}
		}
		if all != nil {
			return all
		}
	}
	return nil
}

// bySeed groups records by name and seed. It returns nothing if two records of different rows or columns share them; of one number the last record counts.
func bySeed(records []study.Record, name func(study.Record) string) map[string]map[int]study.Record {
	groups := map[string]map[int]study.Record{}
	for _, r := range records {
		key := name(r)
		if groups[key] == nil {
			groups[key] = map[int]study.Record{}
		}
		if before, ok := groups[key][r.Seed]; ok && (before.Row != r.Row || before.Column != r.Column) {
			return nil
		}
		groups[key][r.Seed] = r
	}
	return groups
}

// details lists the further numbers that all records of a number have. The speed is none: it says nothing about what was learnt.
func details(a, b map[int]study.Record) []string {
	all := lo.Values(a, b)
	count := lo.CountValues(lo.FlatMap(all, func(r study.Record, _ int) []string { return lo.Keys(r.Details) }))
	return slices.Sorted(slices.Values(lo.FilterKeys(count, func(name string, n int) bool { return n == len(all) && !study.IsSpeed(name) })))
}

func pair(a, b map[int]study.Record, value func(study.Record) float64) (p Paired) {
	for _, seed := range slices.Sorted(maps.Keys(a)) {
		if other, ok := b[seed]; ok {
			p.Seeds, p.Differences = append(p.Seeds, seed), append(p.Differences, value(other)-value(a[seed]))
		}
	}
	for i, records := range []map[int]study.Record{a, b} {
		p.Values[i] = lo.FilterMap(slices.Sorted(maps.Keys(records)), func(seed, _ int) (float64, bool) {
			return value(records[seed]), p.Seeds == nil || slices.Contains(p.Seeds, seed)
		})
	}
	p.Interval = stats.MeanInterval(p.Differences)
	return p
}

// Means are the means of both runs.
func (p Paired) Means() (text [2]string) {
	for i, values := range p.Values {
		text[i] = fmt.Sprintf("%.4g", stats.MeanInterval(values).Mean)
	}
	return text
}

// Difference is the mean of the differences with their number and, from two on, the 95 % interval; empty without a common seed.
func (p Paired) Difference() string {
	switch n := len(p.Differences); {
	case n == 0:
		return ""
	case n == 1:
		return fmt.Sprintf("%+.4g (1 seed)", p.Interval.Mean)
	default:
		return fmt.Sprintf("%+.4g [%+.4g, %+.4g] (%d seeds)", p.Interval.Mean, p.Interval.Low, p.Interval.High, n)
	}
}

// BySeed lists the differences with their seeds; empty for one, which [Paired.Difference] has.
func (p Paired) BySeed() string {
	if len(p.Seeds) == 1 { // Of two trainings on images, whose own seeds are settings, it would be 0.
		return ""
	}
	return strings.Join(lo.Map(p.Seeds, func(seed, i int) string { return fmt.Sprintf("%d: %+.4g", seed, p.Differences[i]) }), ", ")
}

// curves fills in the curves of what both runs have recorded along the way.
func (c *Comparison) curves(a, b Selection) {
	for i, s := range []Selection{a, b} {
		var files []string
		for _, r := range s.Records {
			if r.Curve != "" { // Tails have no steps, and give no points.
				add(&files, filepath.Join(s.Folder, filepath.FromSlash(r.Curve)))
			}
		}
		for _, err := range addCurves(&c.Curves, []string{"A", "B"}[i], files...) { // Named as in the tables. The names of runs are too long for a legend.
			add(&c.Notes, "not read: "+err.Error())
		}
	}
	c.Curves = slices.DeleteFunc(changing(c.Curves), func(f figures.Curves) bool { return len(f.Series) < 2 || len(f.Series[0].X) < 2 })
}

// Text describes the comparison for a terminal.
func (c Comparison) Text() string {
	settings := lo.Map(c.Settings, func(row [3]string, _ int) []string { return row[:] })
	numbers := lo.Map(c.Numbers, func(p Paired, _ int) []string {
		metric := lo.Ternary(p.Metric == "", "", " ("+strings.TrimSuffix(p.Metric+", "+p.Unit, ", ")+")")
		return []string{p.Name + metric, p.Means()[0], p.Means()[1], p.Difference(), p.BySeed()}
	})
	text := fmt.Sprintf("A  %s\nB  %s\n", c.Names[0], c.Names[1]) + textOf("settings that differ", "none", []string{"", "A", "B"}, settings) +
		textOf("numbers, B − A paired by seed, with 95 % intervals", "", []string{"", "A", "B", "B − A", "by seed"}, numbers) +
		CurvesText("the runs have none in common", c.Curves)
	for _, line := range c.Notes {
		text += line + "\n"
	}
	return text
}

// CurvesText draws curves of several series, each in a line, for a terminal; none stands in the place of curves.
func CurvesText(none string, curves []figures.Curves) string {
	number := func(value float64) string { return fmt.Sprintf("%.4g", value) }
	var rows [][]string
	for _, f := range curves {
		all := lo.FlatMap(f.Series, func(s figures.Series, _ int) []float64 { return s.Y })
		for i, s := range f.Series {
			name := lo.Ternary(i == 0, f.Y, "")
			rows = append(rows, []string{name, s.Name, number(s.Y[0]), spark(s.Y, slices.Min(all), slices.Max(all)), number(s.Y[len(s.Y)-1])})
		}
	}
	return textOf("curves, from the first step to the last", none, nil, rows)
}

// textOf is a table for a terminal; none stands in the place of rows.
func textOf(title, none string, columns []string, rows [][]string) string {
	if len(rows) == 0 {
		columns, rows = nil, [][]string{{none}}
	}
	for _, row := range rows {
		row[0] = "  " + row[0]
	}
	return "\n" + title + "\n" + strings.TrimSuffix(figures.TextGrid(columns, rows).Text(), "\n")
}

// spark draws values between two bounds in a line of characters.
func spark(values []float64, low, high float64) string {
	const most = 24 // Characters.
	levels, n := []rune("▁▂▃▄▅▆▇█"), min(len(values), most)
	return string(lo.Times(n, func(i int) rune {
		share := (values[i*(len(values)-1)/max(1, n-1)] - low) / max(high-low, math.SmallestNonzeroFloat64)
		return levels[int(min(max(share, 0), 1)*float64(len(levels)-1))]
	}))
}

//go:embed compare.html
var comparisonText string

var comparisonTemplate = page.Template(comparisonText)

// Write writes the comparison as a page.
func (c Comparison) Write(file string) (err error) {
	defer try.Handle(&err)
	const panels = 3 // Curves beside each other.
	rows := lo.Map(lo.Chunk(c.Curves, panels), func(row []figures.Curves, _ int) template.URL { return try.E1(page.Image(figures.CurvesRow(row))) })
	return page.Write(file, comparisonTemplate, struct {
		Comparison
		Rows []template.URL
	}{c, rows})
}
