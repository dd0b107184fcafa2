package effectaug

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/analysis"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/views"
)

var effectAug = Experiment{
	Name:       EffectAug,
	Title:      "Which transformations make good views, and does it matter that views show different positions?",
	Reproduces: "Tab. effect_aug, Tab. effect_aug_full; claims C1–C12",
	Data:       "CIFAR-10 (quick), CIFAR-10 and CIFAR-100 (full), class folders, or synthetic objects without --data",
	Cost: map[Profile]string{
		Smoke: "under a minute on 2 cores",
		Quick: "about an hour on 2 cores",
		Full:  "312 trainings of ResNet-18 for 800 epochs: a GPU, or several with --only",
	},
	Run: runEffectAug,
	Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
		study, err := newEffectAugResults(records, profile, effectAugSettings)
		if err != nil {
			return nil, err
		}
		return study.tables()
	},
}

// EffectAugResults are the records of the augmentation study in one profile, one group of seeds for each number.
type EffectAugResults struct {
	profile Profile
	recordGroups
	// datasets are the titles of the datasets with records, the paper's first.
	datasets []string
}

// LoadEffectAug reads the study's records under the folder out.
func LoadEffectAug(out string, profile Profile) (EffectAugResults, error) {
	records, err := Records(folderOf(out, EffectAug))
	if err != nil {
		return EffectAugResults{}, err
	}
	return newEffectAugResults(records, profile, effectAugSettings)
}

// effectAugSettings are the settings of a training.
func effectAugSettings(r Record) (settings, error) {
	var config EffectAugConfig
	if err := r.configuration(&config); err != nil {
		return settings{}, err
	}
	changed, err := changedKeys("", effectAugConfig(r.Profile, config.Method), config.base())
	return settings{config.base(), r.Data, changed}, err
}

// newEffectAugResults groups the records of one profile, each with the settings that settingsOf finds in it.
func newEffectAugResults(records []Record, profile Profile, settingsOf func(Record) (settings, error)) (EffectAugResults, error) {
	groups, err := groupRecords(records, profile, settingsOf)
	if err != nil {
		return EffectAugResults{}, err
	}
	results := EffectAugResults{profile: profile, recordGroups: groups}
	for key := range results.runs {
		dataset, _, _ := strings.Cut(key[1], "/")
		if !slices.Contains(results.datasets, dataset) {
			results.datasets = append(results.datasets, dataset)
		}
	}
	slices.SortFunc(results.datasets, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	return results, nil
}

// rank orders datasets: the paper's two, then others.
func rank(dataset string) int {
	if i := slices.Index([]string{"CIFAR-10", "CIFAR-100"}, dataset); i >= 0 {
		return i
	}
	return 2
}

// Datasets are the titles of the datasets with records: the paper's first.
func (r EffectAugResults) Datasets() []string { return r.datasets }

// values are the accuracies of a cell of the table, in the order of their seeds.
func (r EffectAugResults) values(row, column string) []float64 {
	var values []float64
	for _, record := range r.runs[[2]string{row, column}] {
		values = append(values, record.Value)
	}
	return values
}

// bySeed are the accuracies of a cell by seed.
func (r EffectAugResults) bySeed(row, column string) map[int]float64 {
	values := map[int]float64{}
	for _, record := range r.runs[[2]string{row, column}] {
		values[record.Seed] = record.Value
	}
	return values
}

// differences are row a minus row b for each seed that both have, in the order of the seeds.
func (r EffectAugResults) differences(a, b, column string) []float64 {
	other := r.bySeed(b, column)
	var differences []float64
	for _, record := range r.runs[[2]string{a, column}] {
		if value, ok := other[record.Seed]; ok {
			differences = append(differences, record.Value-value)
		}
	}
	return differences
}

// tables are the paper's full table, its excerpt in the main text, and one table for each dataset that the paper does not have.
func (r EffectAugResults) tables() ([]figures.Table, error) {
	full, err := figures.Paper("effect_aug_full")
	if err != nil {
		return nil, err
	}
	excerpt, err := figures.Paper("effect_aug")
	if err != nil {
		return nil, err
	}
	rows := map[string]string{}
	for _, row := range EffectAugRows {
		heads := row.Heads()
		rows[strings.Join(heads, ",")] = row.Name
	}
	ours := func(heads []string, column string) []float64 {
		for len(heads) < 5 { // The excerpt leaves out the flip, which none of its rows has.
			heads = append(slices.Clone(heads), "")
		}
		return r.values(rows[strings.Join(heads, ",")], column)
	}
	caption := "k-NN accuracy of frozen features under different transformations. A half circle: the same crop for both views."
	describe := func(t figures.Table, title string) figures.Table {
		t.Title, t.Caption, t.Unit, t.Profile = title, caption, "%", string(r.profile)
		for i, column := range t.Columns {
			if !slices.ContainsFunc(t.Rows, func(row figures.Row) bool { return len(row.Cells[i].Ours) > 0 }) {
				continue
			}
			dataset, _, _ := strings.Cut(column, "/")
			for _, identity := range r.dataOf(dataset) {
				if !slices.Contains(t.Data, identity) {
					t.Data = append(t.Data, identity)
				}
			}
			if changed := r.changed[column]; len(changed) > 0 {
				t.Caption += fmt.Sprintf(" %s was run with other settings than the profile's: %s.", column, strings.Join(changed, ", "))
			}
		}
		return t
	}
	tables := []figures.Table{
		describe(full.Beside(ours), "Tab. effect_aug_full"),
		describe(excerpt.Beside(ours), "Tab. effect_aug"),
	}
	for _, dataset := range r.datasets {
		if rank(dataset) < 2 {
			continue
		}
		t := figures.Table{RowHeads: full.RowHeads}
		for _, method := range methods.Names {
			t.Columns = append(t.Columns, dataset+"/"+methodTitles[method])
		}
		for _, row := range EffectAugRows {
			line := figures.Row{Heads: row.Heads()}
			for _, column := range t.Columns {
				line.Cells = append(line.Cells, figures.Cell{Paper: math.NaN(), Ours: r.values(row.Name, column)})
			}
			t.Rows = append(t.Rows, line)
		}
		tables = append(tables, describe(t, fmt.Sprintf("Tab. effect_aug_full on %s, which the paper does not have", dataset)))
	}
	return tables, nil
}

// dataOf lists the data identities behind a dataset's numbers.
func (r EffectAugResults) dataOf(dataset string) []string {
	var identities []string
	for key, group := range r.runs {
		if strings.HasPrefix(key[1], dataset+"/") && !slices.Contains(identities, group[0].Data) {
			identities = append(identities, group[0].Data)
		}
	}
	slices.Sort(identities)
	return identities
}

// Measure is the quantity of one of the claims C1 to C12, one value a seed, on a dataset; nil if the claim is another or has no runs.
func (r EffectAugResults) Measure(claim figures.Claim, dataset string) []float64 {
	column := dataset + "/" + claim.Part
	switch claim.ID {
	case "C1", "C2", "C3", "C4":
		return r.differences(rowAll, rowNoCrop, column)
	case "C5", "C6", "C7", "C8":
		return r.differences(rowAll, rowSameCrop, column)
	case "C9", "C10", "C11", "C12":
		return r.richnessCorrelations(column)
	}
	return nil
}

// richnessCorrelations are, for each seed with all five rows with independent crops, the rank correlation of accuracy with the number of
// transformations.
func (r EffectAugResults) richnessCorrelations(column string) []float64 {
	var correlations []float64
	for _, record := range r.runs[[2]string{rowAll, column}] {
		var counts, accuracies []float64
		for _, row := range EffectAugRows {
			value, ok := r.bySeed(row.Name, column)[record.Seed]
			if row.Crop == views.IndependentCrop && ok {
				counts, accuracies = append(counts, float64(row.Transformations())), append(accuracies, value)
			}
		}
		if len(counts) < 5 {
			continue
		}
		if correlation, err := analysis.Spearman(counts, accuracies); err == nil {
			correlations = append(correlations, correlation)
		}
	}
	return correlations
}

// CropDrop is the figure of what each method loses without different positions, on a dataset: ours beside the paper's.
func (r EffectAugResults) CropDrop(dataset string) (figures.CropDrop, error) {
	paper, err := figures.Paper("effect_aug_full")
	if err != nil {
		return figures.CropDrop{}, err
	}
	figure := figures.CropDrop{Title: r.title(dataset)}
	for _, method := range methods.Names {
		column := dataset + "/" + methodTitles[method]
		drop := func(row string) figures.Cell {
			return figures.Cell{
				Paper: paper.Value(column, headsOf(rowAll)...) - paper.Value(column, headsOf(row)...),
				Ours:  r.differences(rowAll, row, column),
			}
		}
		figure.Methods = append(figure.Methods, figures.MethodDrop{Method: methodTitles[method], Without: drop(rowNoCrop), Same: drop(rowSameCrop)})
	}
	return figure, nil
}

// Richness is the figure of accuracy against the number of transformations, on a dataset: ours beside the paper's.
func (r EffectAugResults) Richness(dataset string) (figures.Richness, error) {
	paper, err := figures.Paper("effect_aug_full")
	if err != nil {
		return figures.Richness{}, err
	}
	figure := figures.Richness{Title: r.title(dataset)}
	for _, method := range methods.Names {
		column := dataset + "/" + methodTitles[method]
		line := figures.MethodRichness{Method: methodTitles[method]}
		for _, row := range EffectAugRows {
			if row.Crop != views.IndependentCrop {
				continue
			}
			line.Transformations = append(line.Transformations, row.Transformations())
			line.Cells = append(line.Cells, figures.Cell{Paper: paper.Value(column, row.Heads()...), Ours: r.values(row.Name, column)})
		}
		figure.Methods = append(figure.Methods, line)
	}
	return figure, nil
}

func (r EffectAugResults) title(dataset string) string {
	return fmt.Sprintf("%s, %s profile", dataset, r.profile)
}

func headsOf(row string) []string {
	i := slices.IndexFunc(EffectAugRows, func(r EffectAugRow) bool { return r.Name == row })
	return EffectAugRows[i].Heads()
}

// Course reads the course of a finished run on the first dataset with records: method as the table heads it, row by its name. A run without
// a record is an error that names it.
func (r EffectAugResults) Course(out, method, row string, seed int) ([]Point, error) {
	for _, dataset := range r.datasets {
		for _, record := range r.runs[[2]string{row, dataset + "/" + method}] {
			if record.Seed == seed {
				return ReadCurve(filepath.Join(folderOf(out, EffectAug), filepath.FromSlash(record.Curve)))
			}
		}
	}
	return nil, fmt.Errorf("no record of %s, row %s, seed %d in the %s profile", method, row, seed, r.profile)
}
