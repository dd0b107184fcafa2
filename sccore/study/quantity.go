package study

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/semcon/semcon/figures"
)

// Quantity is a number of a record, a line of the table of all records.
type Quantity struct {
	Experiment string           `json:"experiment" parquet:"experiment"`
	Profile    Profile          `json:"profile" parquet:"profile"`
	Dataset    string           `json:"dataset" parquet:"dataset"`
	Kind       figures.DataKind `json:"kind" parquet:"kind"` // real or synthetic
	Variant    string           `json:"variant" parquet:"variant"`
	Row        string           `json:"row" parquet:"row"`
	Column     string           `json:"column" parquet:"column"`
	Seed       int              `json:"seed" parquet:"seed"`
	Quantity   string           `json:"quantity" parquet:"quantity"` // The record's metric, or the name of a further number.
	Unit       string           `json:"unit" parquet:"unit"`         // Empty for further numbers.
	Value      float64          `json:"value" parquet:"value"`
	ConfigHash string           `json:"config_hash" parquet:"config_hash"`
	Encoder    string           `json:"encoder" parquet:"encoder"`
	Data       string           `json:"data" parquet:"data"`
	Finished   time.Time        `json:"finished" parquet:"finished,timestamp(millisecond)"`
}

// Quantities lists the value and the further numbers of each record.
func Quantities(records []Record) (all []Quantity) {
	for _, r := range records {
		one := Quantity{r.Experiment, r.Profile, r.Dataset, r.Kind, r.Variant, r.Row, r.Column, r.Seed, r.Metric, r.Unit, r.Value, r.ConfigHash, r.Encoder, r.Data, r.Finished}
		all = append(all, one)
		for _, name := range slices.Sorted(maps.Keys(r.Details)) {
			one.Quantity, one.Unit, one.Value = name, "", r.Details[name]
			all = append(all, one)
		}
	}
	return all
}

// QuantityNames lists the columns of the table, which are the names in JSON.
func QuantityNames() (names []string) {
	for field := range reflect.TypeFor[Quantity]().Fields() {
		names = append(names, field.Tag.Get("json"))
	}
	return names
}

// Texts are the fields as text, in the order of [QuantityNames].
func (q Quantity) Texts() (texts []string) {
	for _, value := range reflect.ValueOf(q).Fields() {
		text := fmt.Sprint(value)
		if at, ok := value.Interface().(time.Time); ok {
			text = at.Format(time.RFC3339)
		}
		texts = append(texts, text)
	}
	return texts
}
