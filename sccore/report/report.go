// Package report makes pages from records: all results of a profile in one page, and two runs compared.
//
// In goes a folder of records, out/EXPERIMENT/runs.jsonl, with the curves and models that they name. Out comes an HTML file that asks nothing of the network: tables and
// figures as the experiments make them, the paper's claims, what stands behind the numbers, and what is missing. [Write] makes the report of a profile.
// [Compare] compares two runs. What an experiment shows is its own: a new table or figure goes there.
package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/page"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

//go:embed report.html
var reportText string

var reportTemplate = page.Template(reportText)

// Options say what a report shows.
type Options struct {
	Profile study.Profile
	Out     string   // Folder of the records.
	Set     []string // Settings of the runs that are shown, as [study.Spec.Selected] takes them; of experiments that do not have the keys all runs are shown.
	Data    string   // Folder of the datasets, which some figures are drawn from; empty for synthetic images.
	// Backend draws what models of the runs make of images. Without it such figures are left out.
	Backend compute.Backend
	// Failures are errors of experiments that have just run, by their names.
	Failures map[string]error
	// Command returns the command that runs the rest of an experiment.
	Command func(e study.Experiment, o study.Options) string
}

// contents is what the page shows.
type contents struct {
	Title, Profile, Folder string
	Versions               []string
	Recorded               int // Experiments with records.
	Sections               []section
	Claims                 template.HTML
	Problems               []string
	Commands               []string // That make what is missing.
}

// section is what the page shows of an experiment.
type section struct {
	study.Info
	Records  int
	Progress string // How many of its runs are recorded, if that can be told.
	Complete bool
	Tables   []template.HTML
	Empty    []string // Titles of tables without a number of ours.
	Numbers  string   // How many cells of its tables have a number.
	Figures  []picture
	Failures []string // Why runs have failed.
	Others   string   // Other profiles with records.
	Problems []string // What could not be used, a line each.
	Behind   behind
}

// picture is a drawn figure.
type picture struct {
	Name, Caption string
	Source        template.URL
}

// Write writes the report of a profile to a file. A record that cannot be read and a figure that cannot be drawn are named in it.
func Write(file string, o Options) error {
	p := contents{Title: fmt.Sprintf("Semantic concentration, %s profile", o.Profile), Profile: string(o.Profile), Folder: o.Out, Versions: versions(backend.Versions())}
	for _, e := range experiments.All() {
		run := o.run(e)
		s := o.section(e, run, file)
		p.Sections, p.Problems = append(p.Sections, s), append(p.Problems, s.Problems...)
		if !s.Complete && e.Cost[o.Profile] != "" { // It has the profile.
			p.Commands = append(p.Commands, o.Command(e, run))
		}
	}
	p.Recorded = lo.CountBy(p.Sections, func(s section) bool { return s.Records > 0 })
	board, err := experiments.Claims(o.Out, o.Profile, o.Set...)
	if err != nil {
		p.Problems = append(p.Problems, fmt.Sprintf("the claims: %v", err))
	} else {
		p.Claims = template.HTML(board.LinkedHTML(func(experiment string) string { return "#records-" + experiment }))
	}
	return page.Write(file, reportTemplate, p)
}

// run are the options of a run of what is missing of an experiment, with DIR and FILE for what the profiles real and full ask for.
func (o Options) run(e study.Experiment) study.Options {
	options := study.Options{Profile: o.Profile, Out: o.Out, Data: o.Data, Set: o.Set}
	options.Data = e.DataFor(options)
	if _, _, _, err := e.Recorded(e.FromFiles(options)); err != nil {
		options.Set = nil // The experiment may have no such keys, and then shows all runs.
	}
	options = e.FromFiles(options)
	if _, _, _, err := e.Recorded(options); err == nil || o.Profile != study.Real && o.Profile != study.Full {
		return options
	}
	options.Data = cmp.Or(options.Data, lo.Ternary(e.GeneratesData, "", "DIR"))
	if len(options.Set) == 0 {
		options.Set = lo.Map(e.Files, func(key string, _ int) string { return key + "=FILE" })
	}
	return options
}

// section collects what the page, a file, shows of an experiment. run are the options of its runs.
func (o Options) section(e study.Experiment, run study.Options, file string) section {
	s, folder := section{Info: e.Info}, study.Folder(o.Out, e.Name)
	broken, _ := study.BrokenLines(folder) // Records has the same error.
	s.Problems = lo.Map(broken, func(line string, _ int) string { return line + " (left out)" })
	all, err := study.Records(folder)
	if err != nil {
		s.Problems = append(s.Problems, err.Error())
		return s
	}
	if selected, err := e.Selected(all, study.Options{Profile: o.Profile, Out: o.Out, Set: o.Set}); err == nil {
		all = selected
	}
	records, others := lo.FilterReject(all, func(r study.Record, _ int) bool { return r.Profile == o.Profile })
	s.Records, s.Others = len(records), strings.Join(lo.Uniq(lo.Map(others, func(r study.Record, _ int) string { return string(r.Profile) })), ", ")
	if err := o.Failures[e.Name]; err != nil {
		s.Failures = append(s.Failures, panics.FirstLine(err.Error()))
	}
	if len(records) == 0 { // The runs may be on data that are not here, so that nothing can be told.
		return s
	}
	s.progress(e, run)
	byCell := slices.Clone(records) // Cells may have run in any order.
	slices.SortStableFunc(byCell, func(x, y study.Record) int { return cmp.Compare(withoutSeed(x), withoutSeed(y)) })
	s.Behind = behindOf(e.Name, byCell, linkTo(file, filepath.Join(folder, study.RunsFile)))
	if err := panics.Catch(func() error { return s.tables(e, records, o.Profile) }); err != nil {
		s.Problems = append(s.Problems, fmt.Sprintf("tables of %s: %s", e.Name, panics.FirstLine(err.Error())))
	}
	s.figures(e, records, o)
	return s
}

// progress tells how many runs are recorded.
func (s *section) progress(e study.Experiment, run study.Options) {
	cells, err := e.Status(run)
	if err != nil {
		return
	}
	s.Failures = append(s.Failures, lo.FilterMap(cells, func(c study.CellStatus, _ int) (string, bool) { return c.Name + ": " + c.Failure, c.Failure != "" })...)
	if done := lo.CountBy(cells, func(c study.CellStatus) bool { return c.State == study.Done }); done > 0 {
		s.Progress, s.Complete = fmt.Sprintf("%d of %d", done, len(cells)), done == len(cells)
	}
}

// tables writes the tables of an experiment, with a link from each number to its records.
func (s *section) tables(e study.Experiment, records []study.Record, profile study.Profile) error {
	tables, err := e.Tables(records, profile)
	if err != nil {
		return err
	}
	filled, cells := 0, 0
	for _, t := range tables {
		all := lo.FlatMap(t.Rows, func(row figures.Row, _ int) []figures.Cell { return row.Cells })
		ours := lo.CountBy(all, func(cell figures.Cell) bool { return len(cell.Ours) > 0 })
		if filled, cells = filled+ours, cells+len(all); ours == 0 {
			s.Empty = append(s.Empty, t.Title)
		} else {
			s.Tables = append(s.Tables, template.HTML(t.LinkedHTML(func(place string) string { return "#" + s.Behind.anchors[place] })))
		}
	}
	s.Numbers = fmt.Sprintf("%d of %d", filled, cells)
	return nil
}

// figures draws the figures of an experiment.
func (s *section) figures(e study.Experiment, records []study.Record, o Options) {
	var drawn []study.Figure
	err := panics.Catch(func() (err error) {
		drawn, err = e.Figures(records, o.Profile, study.FigureSources{Out: o.Out, Data: o.Data, Backend: o.Backend})
		return err
	})
	if err != nil {
		lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
		s.Problems = append(s.Problems, lo.Map(lines, func(line string, _ int) string { return e.Name + ": " + strings.TrimSpace(line) })...)
	}
	for _, f := range drawn {
		var source template.URL
		err := panics.Catch(func() (err error) { source, err = page.Image(f.Figure); return err })
		if err != nil {
			s.Problems = append(s.Problems, fmt.Sprintf("%s: figure %s: %s", e.Name, f.Name, panics.FirstLine(err.Error())))
			continue
		}
		s.Figures = append(s.Figures, picture{f.Name, f.Caption, source})
	}
}

// linkTo returns the relative link from a page to a file; its path where there is none.
func linkTo(page, file string) string {
	from, err := filepath.Abs(filepath.Dir(page))
	to, failure := filepath.Abs(file)
	relative, unrelated := filepath.Rel(from, to)
	return filepath.ToSlash(lo.Ternary(cmp.Or(err, failure, unrelated) == nil, relative, cmp.Or(to, file)))
}

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
	known := facts(records)
	b := behind{File: link, Data: known[factData], Protocols: known[factProtocol], anchors: map[string]string{}}
	b.Settings = lo.FilterMap(slices.Sorted(maps.Keys(known)), func(name string, _ int) (string, bool) {
		return name + "=" + strings.Join(known[name], " | "), !strings.HasPrefix(name, "(")
	})
	for _, same := range lo.PartitionBy(records, func(r study.Record) [3]string { return [3]string{r.Row, r.Column, r.ConfigHash} }) {
		r := same[0]
		g := group{Anchor: fmt.Sprintf("%s-%d", experiment, r.Line), Row: r.Row, Column: r.Column, Cell: withoutSeed(r), Hash: r.ConfigHash}
		g.Metric = strings.TrimSuffix(r.Metric+", "+r.Unit, ", ")
		g.Seeds = lo.Map(same, func(r study.Record, _ int) seed { return seed{r.Seed, r.Line, fmt.Sprintf("%.4g", r.Value)} })
		slices.SortStableFunc(g.Seeds, func(x, y seed) int { return cmp.Compare(x.Seed, y.Seed) })
		b.Groups = append(b.Groups, g)
		for _, r := range same {
			b.anchors[r.Place()] = g.Anchor
		}
	}
	seconds := map[string]float64{} // By cell and configuration.
	for _, r := range records {
		add(&b.Engines, strings.Join(append([]string{r.Backend}, versions(r.Versions)...), ", "))
		b.Skipped = max(b.Skipped, len(r.Skipped))
		run := r.Cell + r.ConfigHash
		seconds[run] = max(seconds[run], r.Seconds)
	}
	b.Time = (time.Duration(lo.Sum(slices.Collect(maps.Values(seconds)))) * time.Second).String()
	earlier := func(x, y study.Record) int { return x.Finished.Compare(y.Finished) }
	b.Dates = slices.MinFunc(records, earlier).Finished.Format(time.DateOnly)
	if last := slices.MaxFunc(records, earlier).Finished.Format(time.DateOnly); last != b.Dates {
		b.Dates += " to " + last
	}
	return b
}

func withoutSeed(r study.Record) string {
	cell, _, _ := strings.Cut(r.Cell, "/seed")
	return cell
}

// Facts that are no settings.
const (
	factData     = "(data)"
	factProtocol = "(protocol)"
)

// facts are the settings behind records, by the keys of --set, and under names in brackets what else is behind them. Each has its values in the order of the records.
func facts(records []study.Record) map[string][]string {
	all := map[string][]string{}
	for _, r := range records {
		known := lo.MapKeys(flatten(r.Config), func(_, key string) string { return settings.Key(key) })
		known["(cell)"], known[factData], known["(engine)"], known[factProtocol] = withoutSeed(r), r.Data, r.Backend, r.Protocol
		known["(experiment)"], known["(versions)"] = r.Experiment, strings.Join(versions(r.Versions), ", ")
		if r.Derived {
			known["(configuration)"] = "the settings that all lines share; line " + r.Row + " ran with a part of them (recorded by an earlier version)"
		}
		for key, value := range known {
			values := all[key]
			add(&values, value)
			all[key] = values
		}
	}
	return all
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
			version = version[:12] + strings.TrimLeft(version[12:], "0123456789abcdef") // "-modified" stays.
		}
		list = append(list, name+" "+version)
	}
	return list
}

// flatten returns the values of a JSON object, such as a configuration, by the keys of --set.
func flatten(object json.RawMessage) map[string]string {
	flat := map[string]string{}
	var walk func(prefix string, value any)
	walk = func(prefix string, value any) {
		if level, ok := value.(map[string]any); ok {
			for name, inner := range level {
				walk(strings.TrimPrefix(prefix+"."+name, "."), inner)
			}
		} else if text, ok := value.(string); ok && prefix != "" {
			flat[prefix] = text // Without JSON's escapes.
		} else if text, err := json.Marshal(value); err == nil && prefix != "" {
			flat[prefix] = string(text)
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var root any
	if decoder.Decode(&root) == nil {
		walk("", root)
	}
	return flat
}
