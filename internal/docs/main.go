// Command docs writes the tables of numbers on the project's pages from docs/records.jsonl. A page says where a table stands by two comments:
//
//	<!-- table NAME: what the rows are -->
//	<!-- end -->
//
// It runs in the repository's root. With --table it first takes the numbers of that table from the records of an experiment, for rows and differences of rows:
//
//	go run ./internal/docs --table NAME --experiment EXPERIMENT --data WORDS --column TITLE=COLUMN TITLE=ROW TITLE=ROW−OTHER
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
)

const numbersFile = "docs/records.jsonl"

func main() {
	name := flag.String("table", "", "NAME of the table to take from records; without it pages alone are written")
	out := flag.String("out", "out", "FOLDER of the records")
	experiment := flag.String("experiment", "", "EXPERIMENT of the records")
	profile := flag.String("profile", "quick", "PROFILE of the records")
	data := flag.String("data", "", "what the records were measured on, in a few WORDS")
	var columns []string
	flag.Func("column", "TITLE=COLUMN of a column of the records, or TITLE=COLUMN:DETAIL, in the order of the table; may be repeated; by default all columns", func(column string) error {
		columns = append(columns, column)
		return nil
	})
	flag.Parse()
	log.SetPrefix("docs: ")
	defer try.F(log.Fatal)
	all := try.E1(study.ReadCurve[number](numbersFile))
	if *name != "" {
		isOld := func(n number) bool { return n.Table == *name }
		_, at, there := lo.FindIndexOf(all, isOld)
		at = lo.Ternary(there, at, len(all))
		all = slices.Insert(slices.DeleteFunc(all, isOld), at, try.E1(measured(*name, *out, *experiment, *profile, *data, columns, flag.Args()))...)
		try.E(study.WriteCurve(numbersFile, all))
	}
	for _, page := range append(try.E1(filepath.Glob("docs/*.md")), "README.md") {
		old := string(try.E1(os.ReadFile(page)))
		text, err := filled(old, all)
		if err != nil {
			log.Fatalf("%s: %v", page, err)
		}
		if text != old {
			try.E(os.WriteFile(page, []byte(text), 0o644))
		}
	}
}

var markers = regexp.MustCompile(`(?s)<!-- table ([\w-]+): ([^\n]*) -->\n.*?<!-- end -->`)

// filled is a page with its tables written anew.
func filled(page string, all []number) (text string, err error) {
	text = markers.ReplaceAllStringFunc(page, func(block string) string {
		name := markers.FindStringSubmatch(block)
		body, failed := table(all, name[1], name[2])
		err = cmp.Or(err, failed)
		return fmt.Sprintf("<!-- table %s: %s -->\n%s<!-- end -->", name[1], name[2], body)
	})
	if strings.Count(page, "<!-- table ") != len(markers.FindAllString(page, -1)) && err == nil {
		err = fmt.Errorf("a table has no end")
	}
	return text, err
}

// number is a line of docs/records.jsonl: a mean over seeds, or a mean of differences paired by seed. Texts of numbers keep their decimals.
type number struct {
	Table  string      `json:"table"`
	Row    string      `json:"row"`
	Column string      `json:"column"`
	Value  json.Number `json:"value"`
	SD     json.Number `json:"sd,omitempty"`
	Low    json.Number `json:"low,omitempty"` // Bounds of the 95 % interval.
	High   json.Number `json:"high,omitempty"`
	Images string      `json:"images,omitempty"` // The bounds of the 95 % interval over test images.
	Paper  json.Number `json:"paper,omitempty"`

	Seeds   int    `json:"seeds"`
	Weak    int    `json:"weak,omitempty"` // Other seeds, which [study.Results.Judged] leaves out.
	Profile string `json:"profile"`
	Commit  string `json:"commit"` // Of the binary that measured the number; several are joined by "and".
	Date    string `json:"date"`
	Data    string `json:"data"`
}

// cell is the number as a page shows it.
func (n number) cell() string {
	text := lo.Ternary(n.Paper == "", string(n.Value), fmt.Sprintf("%s / **%s**", n.Paper, n.Value))
	if n.SD != "" {
		text += " ± " + string(n.SD)
	}
	if n.Low != "" {
		text += fmt.Sprintf(" (%s to %s)", n.Low, n.High)
	}
	if n.Images != "" {
		text += fmt.Sprintf(" [%s]", n.Images)
	}
	return strings.ReplaceAll(text, "-", "−")
}

// sources says in a line where numbers are from.
func sources(all []number) string {
	groups := lo.PartitionBy(all, func(n number) [3]string { return [3]string{n.Profile, n.Date, n.Data} })
	return strings.Join(lo.Map(groups, func(of []number, _ int) string {
		seeds := lo.Map(of, func(n number, _ int) int { return n.Seeds })
		n, fewest, most := of[0], slices.Min(seeds), slices.Max(seeds)
		commits := lo.Uniq(lo.FlatMap(of, func(n number, _ int) []string { return strings.Split(n.Commit, " and ") }))
		return fmt.Sprintf("Profile %s, %s%s, %s %s of %s. Data: %s.",
			n.Profile, lo.Ternary(fewest < most, fmt.Sprintf("%d to ", fewest), ""), plural.Count(most, "seed"), lo.Ternary(len(commits) > 1, "commits", "commit"), strings.Join(commits, " and "), n.Date, n.Data)
	}), " ")
}

// table writes the named table as Markdown. Its rows and columns stand as the file first names them. Corner is the head of the rows.
func table(all []number, name, corner string) (string, error) {
	all = lo.Filter(all, func(n number, _ int) bool { return n.Table == name })
	if len(all) == 0 {
		return "", fmt.Errorf("no numbers of the table %s", name)
	}
	unique := func(of func(number) string) []string {
		return lo.Uniq(lo.Map(all, func(n number, _ int) string { return of(n) }))
	}
	rows, columns := unique(func(n number) string { return n.Row }), unique(func(n number) string { return n.Column })
	cells := lo.SliceToMap(all, func(n number) ([2]string, string) { return [2]string{n.Row, n.Column}, n.cell() })
	var text strings.Builder
	fmt.Fprintf(&text, "| %s | %s |\n|---|%s\n", corner, strings.Join(columns, " | "), strings.Repeat("--:|", len(columns)))
	for _, row := range rows {
		line := lo.Map(columns, func(column string, _ int) string { return cells[[2]string{row, column}] })
		fmt.Fprintf(&text, "| %s | %s |\n", row, strings.Join(line, " | "))
	}
	weak := lo.MaxBy(all, func(a, b number) bool { return a.Weak > b.Weak }).Weak
	notes := lo.Ternary(weak > 0, fmt.Sprintf(" Differences with CoTAP leave out %s below the gate.", plural.Count(weak, "seed")), "")
	notes += lo.Ternary(lo.SomeBy(all, func(n number) bool { return n.Images != "" }), " In square brackets: the 95 % interval over test images.", "")
	fmt.Fprintf(&text, "\n*%s%s*\n", sources(all), notes)
	return text.String(), nil
}

// measured returns the numbers of an experiment's records as a table. A row is "TITLE=ROW", or "TITLE=ROW−OTHER" for differences paired by seed.
// A column is "TITLE=COLUMN" or, for a detail of its records, "TITLE=COLUMN:DETAIL"; without any, all are taken by their own names. COLUMN may be the mean of
// several, "A & B". Numbers have one decimal, and differences with a bound close to zero have two.
// Differences leave out the seeds that [study.Results.Judged] does.
func measured(name string, out, experiment, profile, data string, columns, rows []string) (all []number, err error) {
	defer try.Handle(&err)
	e, _ := try.E2(experiments.Find(experiment))
	records := try.E1(study.Records(study.Folder(out, e.Name)))
	results := try.E1(e.Results(records, study.Profile(profile)))
	if len(columns) == 0 {
		columns = lo.Map(results.Columns(), func(column string, _ int) string { return column + "=" + column })
	}
	for _, row := range rows {
		title, of, _ := strings.Cut(row, "=")
		of, minus, isDifference := strings.Cut(of, "−")
		for _, column := range columns {
			head, column, _ := strings.Cut(column, "=")
			column, detail, _ := strings.Cut(column, ":")
			quantity := figures.Quantity{Column: column, Row: of, MinusRow: minus, Detail: detail}
			judged, weak := results.Judged(quantity)
			values := lo.Ternary(isDifference || strings.Contains(column, " & "), judged.Quantity(quantity), results.Details(of, column, detail))
			if len(values) == 0 {
				continue
			}
			var commits []string
			var last time.Time
			behind := func(column string, _ int) []study.Record {
				return slices.Concat(judged.Of(of, column), judged.Of(minus, column))
			}
			for _, record := range lo.FlatMap(strings.Split(column, " & "), behind) { // Columns that a quantity takes the mean of.
				commit := record.Versions["semcon"]
				if len(commit) < 7 || strings.HasSuffix(commit, "-modified") {
					return nil, fmt.Errorf("%s names no commit: build the binary in a checkout without changes", record.Place())
				}
				commits, last = append(commits, commit[:7]), lo.Latest(last, record.Finished)
			}
			i, images, places := stats.MeanInterval(values), judged.Images(quantity), 1
			nearZero := func(i stats.Interval) bool { return i.N > 1 && min(math.Abs(i.Low), math.Abs(i.High)) < 0.05 }
			if isDifference && (nearZero(i) || nearZero(images)) {
				places = 2 // One decimal does not show the side of zero.
			}
			digits := func(x float64) json.Number {
				text := strconv.FormatFloat(x, 'f', places, 64)
				return json.Number(lo.Ternary(strings.Trim(text, "-0.") == "", strings.TrimPrefix(text, "-"), text))
			}
			n := number{
				Table: name, Row: title, Column: head, Value: digits(i.Mean), Seeds: i.N, Profile: profile,
				Commit: strings.Join(lo.Uniq(commits), " and "), Date: last.Format(time.DateOnly), Data: data,
			}
			switch {
			case isDifference:
				if i.N > 1 {
					n.Low, n.High = digits(i.Low), digits(i.High)
				}
				n.Weak = weak
				if images.N > 0 {
					n.Images = fmt.Sprintf("%s to %s", digits(images.Low), digits(images.High))
				}
			case i.N > 1:
				n.SD = digits(i.SD)
			}
			all = append(all, n)
		}
	}
	if all == nil {
		return nil, fmt.Errorf("%s has no records of the profile %s with these rows", filepath.Join(out, e.Name), profile)
	}
	return all, nil
}
