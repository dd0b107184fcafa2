package transfer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/heads"
)

var transfer = Experiment{
	Name:       Transfer,
	Title:      "How well do fixed features segment, with a linear head and with an FCN?",
	Reproduces: "Tab. semantic_seg, Tab. semantic_seg_acc; claim C22",
	Data:       "COCOStuff-27, PASCAL VOC, ADE20k and Cityscapes, those that --data has, or synthetic scenes; encoders from pretrain's runs, or --set weights.dino-s16=FILE",
	Cost: map[Profile]string{
		Smoke: "seconds",
		Quick: "under ten minutes on 2 cores",
		Full:  "for an encoder and a dataset 500k crops through ViT-S/16 and eight heads: hours on a GPU, and up to 20 GiB of disk",
	},
	Run: runTransfer,
	Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
		results, err := newTransferResults(records, profile)
		if err != nil {
			return nil, err
		}
		return results.tables()
	},
}

// TransferResults are the records of the experiment in one profile.
type TransferResults struct {
	profile Profile
	recordGroups
}

// LoadTransfer reads the experiment's records under the folder out.
func LoadTransfer(out string, profile Profile) (TransferResults, error) {
	records, err := Records(folderOf(out, Transfer))
	if err != nil {
		return TransferResults{}, err
	}
	return newTransferResults(records, profile)
}

func newTransferResults(records []Record, profile Profile) (TransferResults, error) {
	groups, err := groupRecords(records, profile, transferSettings)
	return TransferResults{profile, groups}, err
}

// transferSettings are the settings of a run; encoders are what is compared.
func transferSettings(r Record) (settings, error) {
	var config TransferConfig
	if err := r.configuration(&config); err != nil {
		return settings{}, err
	}
	dataset, _, _ := strings.Cut(r.Cell, "/")
	config.Encoder = frozenEncoder{}
	changed, err := changedKeys("", transferConfig(r.Profile, dataset, config.Head), config)
	return settings{config, r.Data, changed}, err
}

// values are the numbers of a row and a column by ascending seed.
func (r TransferResults) values(row, column string, of func(Record) float64) []float64 {
	var values []float64
	for _, record := range r.runs[[2]string{row, column}] {
		values = append(values, of(record))
	}
	return values
}

func mIoUOf(r Record) float64     { return r.Value }
func accuracyOf(r Record) float64 { return r.Details["accuracy"] }

// Gain is the quantity of a part of claim C22, one value a seed: the linear head's mIoU on a row of the full method less that on its
// initialisation. Parts are "DINO on PASCAL VOC" and "own on synthetic scenes".
func (r TransferResults) Gain(part string) []float64 {
	method, dataset, _ := strings.Cut(part, " on ")
	ours, theirs := methodRows(method)
	return r.gains(ours, theirs, dataset+"/"+headTitle(heads.Linear))
}

// Datasets are the datasets with records, the paper's first, in its order.
func (r TransferResults) Datasets() (names []string) {
	for key := range r.runs {
		if name, _, _ := strings.Cut(key[1], "/"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return columnRankOf(a) - columnRankOf(b) })
	return names
}

// data lists the identities of the images behind the numbers.
func (r TransferResults) data() (identities []string) {
	for _, group := range r.runs {
		if !slices.Contains(identities, group[0].Data) {
			identities = append(identities, group[0].Data)
		}
	}
	slices.Sort(identities)
	return identities
}

// tables are the paper's two, and the same two for rows and datasets that the paper does not have.
func (r TransferResults) tables() (tables []figures.Table, err error) {
	metrics := []struct {
		label, name string
		of          func(Record) float64
	}{{"semantic_seg", "mIoU", mIoUOf}, {"semantic_seg_acc", "pixel accuracy", accuracyOf}}
	rows, err := paperRows("semantic_seg")
	if err != nil {
		return nil, err
	}
	for _, metric := range metrics {
		paper, err := figures.Paper(metric.label)
		if err != nil {
			return nil, err
		}
		t := paper.Beside(func(heads []string, column string) []float64 {
			i := slices.IndexFunc(rows, func(row frozenRow) bool { return slices.Equal(row.heads, heads) })
			return r.values(rows[i].key, column, metric.of)
		})
		t.Title, t.Caption = "Tab. "+metric.label, "Semantic segmentation with fixed features: "+metric.name+" at the full size of the annotation."
		r.describe(&t, rows)
		tables = append(tables, t)
	}
	for _, metric := range metrics {
		t := figures.Table{
			Title:    "Tab. " + metric.label + " for encoders of our own, which the paper does not have",
			Caption:  "Semantic segmentation with fixed features: " + metric.name + " at the full size of the annotation. Alignment is what the full method begins from.",
			RowHeads: []figures.RowHead{{Name: "encoder"}},
		}
		for _, row := range ownRows() {
			for key := range r.runs {
				if key[0] == row.key && !slices.Contains(t.Columns, key[1]) {
					t.Columns = append(t.Columns, key[1])
				}
			}
		}
		if t.Columns == nil {
			continue
		}
		slices.SortFunc(t.Columns, func(a, b string) int { return columnRankOf(a) - columnRankOf(b) })
		for _, row := range ownRows() {
			line := figures.Row{Heads: []string{ownMethods[row.key]}}
			for _, column := range t.Columns {
				line.Cells = append(line.Cells, figures.Cell{Paper: math.NaN(), Ours: r.values(row.key, column, metric.of)})
			}
			t.Rows = append(t.Rows, line)
		}
		r.describe(&t, ownRows())
		tables = append(tables, t)
	}
	return tables, nil
}

// columnRankOf orders columns as the paper does, datasets that it does not have last.
func columnRankOf(column string) int {
	order := []string{"COCOStuff-27", "PASCAL VOC", "ADE20k", "Cityscapes", "synthetic scenes"}
	dataset, head, _ := strings.Cut(column, "/")
	at := 2 * slices.Index(order, dataset)
	if head == headTitle(heads.FCN) {
		at++
	}
	return at
}

// describe fills in what stands behind the numbers of rows.
func (r TransferResults) describe(t *figures.Table, rows []frozenRow) {
	t.Unit, t.Profile = "%", string(r.profile)
	for _, column := range t.Columns {
		measured := false
		for _, row := range rows {
			for _, record := range r.runs[[2]string{row.key, column}] {
				if measured = true; !slices.Contains(t.Data, record.Data) {
					t.Data = append(t.Data, record.Data)
				}
			}
		}
		if changed := r.changed[column]; measured && len(changed) > 0 {
			t.Caption += fmt.Sprintf(" %s was run with other settings than the profile's: %s.", column, strings.Join(changed, ", "))
		}
	}
}
