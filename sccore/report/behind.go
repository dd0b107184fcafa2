package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/semcon/semcon/sccore/study"
)

// behind is what stands behind the numbers of an experiment.
type behind struct {
	File      string // Link to the records.
	Groups    []group
	Data      []string
	Protocols []string
	Engines   []string // Engines with their versions.
	Settings  []string // As "key=value"; with several values, separated by " | ".
	Skipped   int      // Files that the readers skipped.
	Time      string   // Wall time of all runs.
	Dates     string   // Of the first and the last record.

	anchors map[string]string // The group of each record, by its place.
}

// group is the records of a row and a column with one configuration.
type group struct {
	Anchor, Row, Column, Metric, Cell, Hash string
	Seeds                                   []seed
}

// seed is a record within its group.
type seed struct {
	Seed, Line int
	Value      string
}

// behindOf describes records, of one profile and oldest first. link is that to their file.
func behindOf(experiment string, records []study.Record, link string) behind {
	b := behind{File: link, anchors: map[string]string{}}
	type key struct{ row, column, hash string }
	at := map[key]int{}
	seconds := map[string]float64{} // By cell and configuration.
	values := map[string][]string{} // Of settings.
	first, last := records[0].Finished, records[0].Finished
	for _, r := range records {
		k := key{r.Row, r.Column, r.ConfigHash}
		i, ok := at[k]
		if !ok {
			i = len(b.Groups)
			at[k] = i
			cell, _, _ := strings.Cut(r.Cell, "/seed")
			metric := r.Metric
			if r.Unit != "" {
				metric += ", " + r.Unit
			}
			b.Groups = append(b.Groups, group{Anchor: fmt.Sprintf("%s-%d", experiment, r.Line), Row: r.Row, Column: r.Column, Metric: metric, Cell: cell, Hash: r.ConfigHash})
		}
		b.Groups[i].Seeds = append(b.Groups[i].Seeds, seed{r.Seed, r.Line, fmt.Sprintf("%.4g", r.Value)})
		b.anchors[r.Place()] = b.Groups[i].Anchor
		add(&b.Data, r.Data)
		add(&b.Protocols, r.Protocol)
		add(&b.Engines, strings.Join(append([]string{r.Backend}, versions(r.Versions)...), ", "))
		b.Skipped = max(b.Skipped, len(r.Skipped))
		run := r.Cell + r.ConfigHash
		seconds[run] = max(seconds[run], r.Seconds)
		for name, value := range flatten(r.Config) {
			all := values[name]
			add(&all, value)
			values[name] = all
		}
		if r.Finished.Before(first) {
			first = r.Finished
		}
		if r.Finished.After(last) {
			last = r.Finished
		}
	}
	for i := range b.Groups {
		slices.SortStableFunc(b.Groups[i].Seeds, func(x, y seed) int { return cmp.Compare(x.Seed, y.Seed) })
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		b.Settings = append(b.Settings, name+"="+strings.Join(values[name], " | "))
	}
	total := 0.0
	for _, s := range seconds {
		total += s
	}
	b.Time = (time.Duration(total) * time.Second).String()
	if b.Dates = first.Format(time.DateOnly); last.Format(time.DateOnly) != b.Dates {
		b.Dates += " to " + last.Format(time.DateOnly)
	}
	return b
}

// add appends a text to a list unless it is empty or there already.
func add(list *[]string, text string) {
	if text != "" && !slices.Contains(*list, text) {
		*list = append(*list, text)
	}
}

// versions lists what has computed as "name version".
func versions(of map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		version := of[name]
		if name == "semcon" && len(version) > 12 { // A commit.
			version = version[:12]
		}
		list = append(list, name+" "+version)
	}
	return list
}

// flatten returns the settings of a configuration by the keys of --set.
func flatten(config json.RawMessage) map[string]string {
	flat := map[string]string{}
	var walk func(prefix string, value any)
	walk = func(prefix string, value any) {
		level, ok := value.(map[string]any)
		if !ok {
			text, err := json.Marshal(value)
			if err == nil && prefix != "" {
				flat[prefix] = strings.Trim(string(text), `"`)
			}
			return
		}
		for name, inner := range level {
			if prefix != "" {
				name = prefix + "." + name
			}
			walk(name, inner)
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.UseNumber()
	var root any
	if decoder.Decode(&root) == nil {
		walk("", root)
	}
	return flat
}
