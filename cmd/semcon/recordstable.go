package main

import (
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

// quantity is a number of a record, a line of the table of records.
type quantity struct {
	Experiment string           `json:"experiment"`
	Profile    study.Profile    `json:"profile"`
	Dataset    string           `json:"dataset"`
	Kind       figures.DataKind `json:"kind"` // real or synthetic
	Variant    string           `json:"variant"`
	Row        string           `json:"row"`
	Column     string           `json:"column"`
	Seed       int              `json:"seed"`
	Quantity   string           `json:"quantity"` // The record's metric, or the name of a further number.
	Unit       string           `json:"unit"`     // Empty for further numbers.
	Value      float64          `json:"value"`
	ConfigHash string           `json:"config_hash"`
	Encoder    string           `json:"encoder"`
	Data       string           `json:"data"`
	Finished   time.Time        `json:"finished"`
}

// quantitiesOf lists a record's value and its further numbers.
func quantitiesOf(r study.Record) (all []quantity) {
	one := quantity{r.Experiment, r.Profile, r.Dataset, r.Kind, r.Variant, r.Row, r.Column, r.Seed, r.Metric, r.Unit, r.Value, r.ConfigHash, r.Encoder, r.Data, r.Finished}
	all = append(all, one)
	for _, name := range slices.Sorted(maps.Keys(r.Details)) {
		one.Quantity, one.Unit, one.Value = name, "", r.Details[name]
		all = append(all, one)
	}
	return all
}

// namesOf lists the columns of the table, which are the names in JSON.
func namesOf() (names []string) {
	for field := range reflect.TypeFor[quantity]().Fields() {
		names = append(names, field.Tag.Get("json"))
	}
	return names
}

// fields are the texts of a line of the table.
func (q quantity) fields() (texts []string) {
	for _, value := range reflect.ValueOf(q).Fields() {
		text := fmt.Sprint(value)
		if at, ok := value.Interface().(time.Time); ok {
			text = at.Format(time.RFC3339)
		}
		texts = append(texts, text)
	}
	return texts
}

func recordsVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "records [EXPERIMENT…]", Short: "write all records as one table with a line for each number, for pandas, polars or DuckDB",
		Example: "semcon records > records.csv\nsemcon records pretrain transfer --format json",
	}
	completeExperiments(c, true)
	out := c.Flags().String("out", "out", "`FOLDER` of the records")
	format := choiceFlag(c, "format", "`FORMAT`: csv or json", "csv", "json")
	c.RunE = func(c *cobra.Command, names []string) error {
		if c.Flags().Changed("out") {
			must.M(requireFolder("out", *out))
		}
		all := []quantity{}
		for _, e := range must.M1(inOrder(names)) {
			for _, r := range must.M1(study.Records(study.Folder(*out, e.Name))) {
				all = append(all, quantitiesOf(r)...)
			}
		}
		if *format == "json" {
			return printAs("json", "", all)
		}
		w := csv.NewWriter(os.Stdout)
		w.Write(namesOf())
		for _, q := range all {
			w.Write(q.fields())
		}
		w.Flush()
		return w.Error()
	}
	return c
}
