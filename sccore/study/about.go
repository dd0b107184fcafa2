package study

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v2"
)

// files describe the experiments. Each is read when something first asks for it, since most processes need no more than one.
//
//go:embed about/*.yaml
var files embed.FS

// description is what the file of an experiment has.
type description struct {
	Info   `yaml:",inline"`
	Seeds  map[Profile]int // By profile, if they are not 3, or 5 in the profiles quick and real.
	Needed string          // The datasets that the full profile needs below --data, such as DAVIS.
	None   string          // The start of the error if --data has none of several datasets.
	Row    string          // The row of the paper that a warning names if all encoders are random; empty for no warning.
	// Settings are changes to a configuration, one block after the other, with the names of records. A block's condition, under the key when, is a text of words, all of which
	// have to hold: quick is a fact such as the profile, "smoke|quick" is one of two, and "!full" is its absence.
	Settings []map[string]any
	Tables   map[string]Table // What is fixed of tables, by the names that code has for them.

	blocks []block
}

// block is a block of settings, as JSON.
type block struct {
	when []string
	set  []byte
}

// read holds the descriptions by the names of experiments.
var read sync.Map

// describe returns the description of an experiment, which is empty for one without a file.
func describe(name string) *description {
	if d, ok := read.Load(name); ok {
		return d.(*description)
	}
	d := &description{}
	content, err := files.ReadFile("about/" + name + ".yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(content, d)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(fmt.Errorf("%s: %w", name, err))
	}
	d.Name = name
	for _, settings := range d.Settings {
		when, _ := settings["when"].(string)
		delete(settings, "when")
		d.blocks = append(d.blocks, block{strings.Fields(when), EncodeConfig(named(settings))})
	}
	read.Store(name, d)
	return d
}

// named gives groups of settings the type that JSON takes.
func named(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = named(value[key])
		}
	case map[any]any:
		group := map[string]any{}
		for key := range value {
			group[fmt.Sprint(key)] = named(value[key])
		}
		return group
	}
	return value
}

// InfoOf is what lists show of an experiment.
func InfoOf(experiment string) Info { return describe(experiment).Info }

// SourcesOf are the texts about an experiment's datasets: what the full profile needs, the start of the error if there is none of several, and the row that a warning names.
func SourcesOf(experiment string) (needed, none, row string) {
	d := describe(experiment)
	return d.Needed, d.None, d.Row
}

// Seeds is the number of seeds of a call of an experiment.
func Seeds(experiment string, o Options) int {
	usual, ok := describe(experiment).Seeds[o.Profile]
	switch {
	case ok:
		return o.SeedsOr(usual)
	case o.Profile == Quick, o.Profile == Real:
		return o.SeedsOr(5)
	}
	return o.SeedsOr(3)
}

// TableOf is a table as the file of an experiment has it.
func TableOf(experiment, name string) Table {
	t := describe(experiment).Tables[name]
	t.Rows, t.Columns = slices.Clone(t.Rows), slices.Clone(t.Columns)
	return t
}

// Configured returns a configuration that starts as base and is changed by those settings of an experiment whose conditions facts meet, such as the profile and the dataset.
func Configured[C any](experiment string, base C, facts ...string) C {
	for _, b := range describe(experiment).blocks {
		if slices.ContainsFunc(b.when, func(word string) bool { return !holds(word, facts) }) {
			continue
		}
		strict := json.NewDecoder(bytes.NewReader(b.set))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&base); err != nil {
			panic(fmt.Errorf("%s, settings %s: %w", experiment, b.set, err))
		}
	}
	return base
}

// holds reports whether a word of a condition holds.
func holds(word string, facts []string) bool {
	if absent, not := strings.CutPrefix(word, "!"); not {
		return !holds(absent, facts)
	}
	return slices.ContainsFunc(strings.Split(word, "|"), func(fact string) bool { return slices.Contains(facts, fact) })
}

// Kind is the fact that tells photographs from images that an experiment draws.
func Kind(photographs bool) string {
	if photographs {
		return "photographs"
	}
	return "drawn"
}
