package report

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// Comparison is what two runs differ in.
type Comparison struct {
	Names    [2]string
	Settings []Difference // Settings, data and engines that differ.
	Numbers  []Paired
	Curves   []figures.Curves // Of what both runs have recorded along the way, a series for each, means over seeds.
	Missing  []string         // Curves that cannot be read, with the reason.
}

// Difference is a setting with its values in both runs; several values of one run are separated by " | ".
type Difference struct {
	Key    string
	Values [2]string
}

// Paired is a number of both runs.
type Paired struct {
	Name, Metric, Unit string
	Values             [2][]float64 // By ascending seed; all seeds.
	Seeds              []int        // Of both runs.
	Differences        []float64    // Second minus first, for each seed of both.
	Interval           stats.Interval
}

// Compare compares two runs. Numbers are paired by row, column and seed; by column or row alone if the runs have no row and column in common, such as lines of an
// ablation. Without a number in common it is an error.
func Compare(a, b Selection) (Comparison, error) {
	c := Comparison{Names: [2]string{a.Name, b.Name}}
	if c.Names[0] == c.Names[1] {
		c.Names = [2]string{a.Name + " (first)", b.Name + " (second)"}
	}
	c.Settings = differences(a.Records, b.Records)
	if c.Numbers = paired(a.Records, b.Records); c.Numbers == nil {
		return c, errors.New("the runs have no row or column in common, and each has more than one: name single cells")
	}
	c.curves(a, b)
	return c, nil
}

// differences lists what differs in the configurations and what is behind the numbers.
func differences(a, b []study.Record) (all []Difference) {
	var of [2]map[string][]string
	for i, records := range [][]study.Record{a, b} {
		of[i] = map[string][]string{}
		put := func(key, value string) {
			list := of[i][key]
			add(&list, value)
			of[i][key] = list
		}
		for _, r := range records {
			for key, value := range flatten(r.Config) {
				put(key, value)
			}
			cell, _, _ := strings.Cut(r.Cell, "/seed")
			put("(cell)", cell)
			put("(data)", r.Data)
			put("(engine)", r.Backend)
			put("(protocol)", r.Protocol)
			put("(versions)", strings.Join(versions(r.Versions), ", "))
		}
		for key := range of[i] {
			slices.Sort(of[i][key])
		}
	}
	keys := maps.Clone(of[0])
	maps.Copy(keys, of[1])
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Equal(of[0][key], of[1][key]) {
			all = append(all, Difference{key, [2]string{strings.Join(of[0][key], " | "), strings.Join(of[1][key], " | ")}})
		}
	}
	return all
}

// names are the ways to name a number, from the most to the least specific.
var names = []func(study.Record) string{
	func(r study.Record) string { return r.Row + ", " + r.Column },
	func(r study.Record) string { return r.Column },
	func(r study.Record) string { return r.Row },
	func(r study.Record) string { return r.Metric },
}

// paired pairs numbers by the first of names that both runs share, and that names one number of each seed.
func paired(a, b []study.Record) (all []Paired) {
	for _, name := range names {
		first, once := byName(a, name)
		second, also := byName(b, name)
		if !once || !also {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(first)) {
			if second[key] == nil {
				continue
			}
			all = append(all, pair(key, first[key], second[key]))
			for _, detail := range details(first[key], second[key]) {
				all = append(all, pair(key+", "+detail, detailOf(first[key], detail), detailOf(second[key], detail)))
			}
		}
		if all != nil {
			return all
		}
	}
	return nil
}

// byName groups records by name and seed. once is false if two records of different rows or columns share them; of one number the last record counts.
func byName(records []study.Record, name func(study.Record) string) (groups map[string]map[int]study.Record, once bool) {
	groups, once = map[string]map[int]study.Record{}, true
	for _, r := range records {
		key := name(r)
		if groups[key] == nil {
			groups[key] = map[int]study.Record{}
		}
		if before, ok := groups[key][r.Seed]; ok && (before.Row != r.Row || before.Column != r.Column) {
			once = false
		}
		groups[key][r.Seed] = r
	}
	return groups, once
}

// details lists the further numbers that all records of a number have. The speed is none: it says nothing about what was learnt.
func details(a, b map[int]study.Record) (names []string) {
	var all []study.Record
	for _, seeds := range []map[int]study.Record{a, b} {
		for _, seed := range slices.Sorted(maps.Keys(seeds)) {
			all = append(all, seeds[seed])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all[0].Details)) {
		if !slices.ContainsFunc(all, func(r study.Record) bool { _, has := r.Details[name]; return !has }) && name != "images_per_second" {
			names = append(names, name)
		}
	}
	return names
}

// detailOf puts a further number in the place of records' own. Its unit is not recorded.
func detailOf(records map[int]study.Record, name string) map[int]study.Record {
	of := map[int]study.Record{}
	for seed, r := range records {
		r.Value, r.Metric, r.Unit = r.Details[name], "", ""
		of[seed] = r
	}
	return of
}

func pair(name string, a, b map[int]study.Record) Paired {
	p := Paired{Name: name}
	for i, seeds := range []map[int]study.Record{a, b} {
		for _, seed := range slices.Sorted(maps.Keys(seeds)) {
			r := seeds[seed]
			p.Metric, p.Unit = r.Metric, r.Unit
			p.Values[i] = append(p.Values[i], r.Value)
			if other, ok := b[seed]; i == 0 && ok {
				p.Seeds, p.Differences = append(p.Seeds, seed), append(p.Differences, other.Value-r.Value)
			}
		}
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

// BySeed lists the differences with their seeds.
func (p Paired) BySeed() string {
	var list []string
	for i, seed := range p.Seeds {
		list = append(list, fmt.Sprintf("%d: %+.4g", seed, p.Differences[i]))
	}
	return strings.Join(list, ", ")
}
