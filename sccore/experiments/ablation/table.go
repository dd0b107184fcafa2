package ablation

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
)

var ablation = Experiment{
	Name:       Ablation,
	Title:      "What does each part of the method do for images, and what for patches?",
	Reproduces: "Tab. ablation; claims C13–C18",
	Data:       "synthetic objects and scenes; with --data images of ImageNet (imagenet/) and COCO (coco/), measured where they have labels",
	Cost: map[Profile]string{
		Smoke: "about a minute on 2 cores",
		Quick: "about a quarter of an hour on 2 cores",
		Full:  "21 times ViT-S/16, 100k steps of 256 images: up to 1.2e18 FLOP each, days on a GPU",
	},
	Run: runAblation,
	Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
		var all []figures.Table
		for _, read := range []bool{true, false} {
			results, err := newAblationResults(records, profile, read)
			if err != nil {
				return nil, err
			}
			if len(results.runs) == 0 && (read || all != nil) {
				continue
			}
			tables, err := results.tables()
			if err != nil {
				return nil, err
			}
			all = append(all, tables...)
		}
		return all, nil
	},
}

// AblationResults are the records of the ablation in one profile, either those on images that were read or those on synthetic ones.
type AblationResults struct {
	profile      Profile
	read         bool
	recordGroups // A row is the number of a line, or what they begin from; a column one of the paper's table.
}

// LoadAblation reads the ablation's records under the folder out: those on images that were read where there are any, and else those on synthetic
// ones.
func LoadAblation(out string, profile Profile) (AblationResults, error) {
	records, err := Records(folderOf(out, Ablation))
	if err != nil {
		return AblationResults{}, err
	}
	results, err := newAblationResults(records, profile, true)
	if err != nil || len(results.runs) > 0 {
		return results, err
	}
	return newAblationResults(records, profile, false)
}

func newAblationResults(records []Record, profile Profile, read bool) (AblationResults, error) {
	records = slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return strings.HasPrefix(r.Cell, ablationRead) != read })
	groups, err := groupRecords(records, profile, ablationSettings)
	return AblationResults{profile, read, groups}, err
}

// ablationSettings are what all lines share: the configuration that has everything on.
func ablationSettings(r Record) (settings, error) {
	var config AblationConfig
	if err := r.configuration(&config); err != nil {
		return settings{}, err
	}
	own := ablationConfig(r.Profile, strings.HasPrefix(r.Cell, ablationRead))
	if r.Profile == Full {
		own.Init = config.Init // Which this profile has to be given; records name it in what they say of data.
	}
	changed, err := changedKeys("", own, config)
	return settings{config, r.Data, changed}, err
}

// bySeed are the values of a row and a column by seed.
func (r AblationResults) bySeed(row, column string) map[int]float64 {
	values := map[int]float64{}
	for _, record := range r.runs[[2]string{row, column}] {
		values[record.Seed] = record.Value
	}
	return values
}

// values are those of a row and a column by ascending seed.
func (r AblationResults) values(row, column string) (values []float64) {
	for _, record := range r.runs[[2]string{row, column}] {
		values = append(values, record.Value)
	}
	return values
}

// differences are, for each seed that has all the rows, one row minus the best of the others. All rows of a seed go out from one checkpoint,
// which makes the differences paired.
func (r AblationResults) differences(column, row string, others ...string) (differences []float64) {
seeds:
	for _, record := range r.runs[[2]string{row, column}] {
		best := math.Inf(-1)
		for _, other := range others {
			value, ok := r.bySeed(other, column)[record.Seed]
			if !ok {
				continue seeds
			}
			best = max(best, value)
		}
		differences = append(differences, record.Value-best)
	}
	return differences
}

// Measure is the quantity of one of the claims C13 to C18, one value a seed; nil if the claim is another or has no runs.
func (r AblationResults) Measure(claim figures.Claim) []float64 {
	column := map[string]string{"k-NN": lineKNN, "mIoU": lineMIoU}[claim.Part]
	switch claim.ID {
	case "C13":
		if claim.Part == "mIoU" {
			return r.differences(lineMIoU, "2", "1")
		}
		return r.differences(lineKNN, "1", "2")
	case "C14":
		return r.differences(column, "3", "1", "2")
	case "C15":
		return r.differences(lineKNN, "4", "1")
	case "C16":
		return r.differences(lineMIoU, "5", "2")
	case "C17":
		return r.differences(lineMIoU, "6", "3")
	case "C18":
		return r.differences(column, "7", "6")
	}
	return nil
}

// data lists the data identities behind the numbers.
func (r AblationResults) data() (identities []string) {
	for _, group := range r.runs {
		if !slices.Contains(identities, group[0].Data) {
			identities = append(identities, group[0].Data)
		}
	}
	slices.Sort(identities)
	return identities
}

// Rows of the paired table: what a line adds to another one.
var ablationPairs = []struct{ Title, Row, Other string }{
	{"line 1 − line 2: image against patch alignment", "1", "2"},
	{"line 3 − line 1: + patch alignment", "3", "1"},
	{"line 4 − line 1: + image concentration", "4", "1"},
	{"line 5 − line 2: + patch concentration", "5", "2"},
	{"line 6 − line 3: + both concentrations", "6", "3"},
	{"line 7 − line 6: + filter", "7", "6"},
	{"line 7 − stage 1: all of stage 2", "7", rowFirst},
	{"stage 1 − random weights", rowFirst, rowRandom},
	{"line 7 − initialisation: all of the method", "7", rowInit},
}

// fromWeights tells whether the lines begin from a file of weights.
func (r AblationResults) fromWeights() bool {
	for _, group := range r.runs {
		var config AblationConfig
		if json.Unmarshal(group[0].Config, &config) == nil && config.Init != "" {
			return true
		}
	}
	return false
}

// tables are the paper's table with our numbers, and what each part adds from seed to seed.
func (r AblationResults) tables() ([]figures.Table, error) {
	paper, err := figures.Paper(Ablation)
	if err != nil {
		return nil, err
	}
	from, other := "stage-1 checkpoint of its seed", rowInit // What the lines begin from, and what not.
	if r.fromWeights() {
		from, other = "weights", rowFirst
	}
	title := "Tab. ablation"
	caption := "Linear segmentation, linear classification and k-NN classification of frozen features, each line trained from the same " + from + "."
	switch {
	case r.read:
		title += " on images"
		caption += " Segmentation of COCOStuff-27, classification of ImageNet-1k."
	case r.profile != Full:
		title += ", ours on synthetic images"
		caption += " Ours on synthetic objects and scenes, the paper's on ImageNet-1k and COCOStuff-27: compare signs, not sizes."
	}
	describe := func(t figures.Table, title, caption string) figures.Table {
		t.Title, t.Caption, t.Unit, t.Profile = title, caption, "%", string(r.profile)
		t.Data = r.data()
		for _, column := range ablationColumns { // All share their settings, but for columns that are left out.
			if changed := r.changed[column]; len(changed) > 0 {
				t.Caption += fmt.Sprintf(" Run with other settings than the profile's: %s.", strings.Join(changed, ", "))
				break
			}
		}
		return t
	}
	main := paper.Beside(func(heads []string, column string) []float64 { return r.values(heads[0], column) })
	differences := figures.Table{RowHeads: []figures.RowHead{{Name: "difference"}}, Columns: slices.Clone(paper.Columns)}
	for _, pair := range ablationPairs {
		if pair.Row == other || pair.Other == other {
			continue
		}
		row := figures.Row{Heads: []string{pair.Title}}
		for _, column := range paper.Columns {
			printed := r.printed(paper, column, pair.Row) - r.printed(paper, column, pair.Other)
			row.Cells = append(row.Cells, figures.Cell{Paper: printed, Ours: r.differences(column, pair.Row, pair.Other)})
		}
		differences.Rows = append(differences.Rows, row)
	}
	return []figures.Table{
		describe(main, title, caption),
		describe(differences, title+", what each part adds", "Differences of the lines, paired by seed."),
	}, nil
}

// printed is the paper's number of a line, not a number for other rows.
func (r AblationResults) printed(paper *figures.PaperTable, column, line string) float64 {
	for i, a := range sccore.Ablations {
		if strconv.Itoa(a.Line) == line {
			return paper.Value(column, paper.Rows[i].Heads...)
		}
	}
	return math.NaN()
}

// TradeOff is the figure of where the lines stand between k-NN classification and linear segmentation.
func (r AblationResults) TradeOff() (figures.TradeOff, error) {
	paper, err := figures.Paper(Ablation)
	if err != nil {
		return figures.TradeOff{}, err
	}
	title := "The lines of the ablation between two tasks"
	if r.read {
		title += " on images"
	}
	f := figures.TradeOff{Title: fmt.Sprintf("%s, %s profile", title, r.profile), X: "k-NN accuracy (%)", Y: "linear segmentation, mIoU (%)"}
	for _, line := range sccore.Ablations {
		name := strconv.Itoa(line.Line)
		// Seeds go together: only those with both numbers.
		x, y := figures.Cell{Paper: r.printed(paper, lineKNN, name)}, figures.Cell{Paper: r.printed(paper, lineMIoU, name)}
		miou := r.bySeed(name, lineMIoU)
		for _, record := range r.runs[[2]string{name, lineKNN}] {
			if value, ok := miou[record.Seed]; ok {
				x.Ours, y.Ours = append(x.Ours, record.Value), append(y.Ours, value)
			}
		}
		f.Lines = append(f.Lines, figures.TradeOffLine{Name: name, X: x, Y: y})
	}
	return f, nil
}
