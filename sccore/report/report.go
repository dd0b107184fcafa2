package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures/page"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
)

//go:embed report.html
var reportText string

var reportTemplate = page.Template(reportText)

// Options say what a report shows.
type Options struct {
	Profile study.Profile
	Out     string // Folder of the records.
	Data    string // Folder of the datasets, which some figures are drawn from; empty for synthetic images.
	// Backend draws what models of the runs make of images. Without it such figures are left out.
	Backend compute.Backend
	// Failures are errors of experiments that have just run, by their names.
	Failures map[string]error
	// Command returns the command that runs the rest of an experiment.
	Command func(e study.Experiment) string
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
	Behind   behind
}

// picture is a drawn figure.
type picture struct {
	Name, Caption string
	Source        template.URL
}

// Write writes the report of a profile to a file. A record that cannot be read and a figure that cannot be drawn are named in the report, and do not keep it from being
// written.
func Write(file string, o Options) error {
	p := contents{Title: fmt.Sprintf("Semantic concentration, %s profile", o.Profile), Profile: string(o.Profile), Folder: o.Out, Versions: versions(backend.Versions())}
	for _, e := range experiments.All() {
		s, problems := o.section(e, file)
		p.Sections, p.Problems = append(p.Sections, s), append(p.Problems, problems...)
		if s.Records > 0 {
			p.Recorded++
		}
		if !s.Complete {
			p.Commands = append(p.Commands, o.Command(e))
		}
	}
	board, err := experiments.Claims(o.Out, o.Profile)
	if err != nil {
		p.Problems = append(p.Problems, fmt.Sprintf("the claims: %v", err))
	} else {
		p.Claims = template.HTML(board.LinkedHTML(func(experiment string) string { return "#records-" + experiment }))
	}
	return page.Write(file, reportTemplate, p)
}

// section collects what the page, a file, shows of an experiment. Problems are one line each.
func (o Options) section(e study.Experiment, file string) (s section, problems []string) {
	s = section{Info: e.Info}
	folder := study.Folder(o.Out, e.Name)
	broken, err := study.BrokenLines(folder)
	if err != nil {
		return s, []string{err.Error()}
	}
	for _, line := range broken {
		problems = append(problems, line+" (left out)")
	}
	all, err := study.Records(folder)
	if err != nil {
		return s, append(problems, err.Error())
	}
	var records []study.Record
	var others []string
	for _, r := range all {
		if r.Profile == o.Profile {
			records = append(records, r)
		} else if !slices.Contains(others, string(r.Profile)) {
			others = append(others, string(r.Profile))
		}
	}
	s.Records, s.Others = len(records), strings.Join(others, ", ")
	s.progress(o, e)
	if err := o.Failures[e.Name]; err != nil {
		s.Failures = append(s.Failures, firstLine(err.Error()))
	}
	if len(records) == 0 {
		return s, problems
	}
	s.Behind = behindOf(e.Name, records, linkTo(file, filepath.Join(folder, study.RunsFile)))
	if err := panics.Catch(func() error { return s.tables(e, records, o.Profile) }); err != nil {
		problems = append(problems, fmt.Sprintf("tables of %s: %s", e.Name, firstLine(err.Error())))
	}
	return s, append(problems, s.figures(e, records, o)...)
}

// progress tells how many runs are recorded. Where none is, the runs may be on data that are not here, so that nothing can be told.
func (s *section) progress(o Options, e study.Experiment) {
	if s.Records == 0 {
		return
	}
	options := study.Options{Profile: o.Profile, Out: o.Out, Data: o.Data}
	options.Data = e.DataFor(options)
	cells, err := e.Status(options)
	if err != nil {
		return
	}
	done := 0
	for _, c := range cells {
		if c.State == study.Done {
			done++
		}
		if c.Failure != "" {
			s.Failures = append(s.Failures, c.Name+": "+c.Failure)
		}
	}
	if done > 0 {
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
		ours := 0
		for _, row := range t.Rows {
			for _, cell := range row.Cells {
				cells++
				if len(cell.Ours) > 0 {
					ours++
				}
			}
		}
		if filled += ours; ours == 0 {
			s.Empty = append(s.Empty, t.Title)
			continue
		}
		s.Tables = append(s.Tables, template.HTML(t.LinkedHTML(func(place string) string { return "#" + s.Behind.anchors[place] })))
	}
	s.Numbers = fmt.Sprintf("%d of %d", filled, cells)
	return nil
}

// figures draws the figures of an experiment. It returns a line for each that cannot be drawn.
func (s *section) figures(e study.Experiment, records []study.Record, o Options) (problems []string) {
	var drawn []study.Figure
	err := panics.Catch(func() (err error) {
		drawn, err = e.Figures(records, o.Profile, study.FigureSources{Out: o.Out, Data: o.Data, Backend: o.Backend})
		return err
	})
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			problems = append(problems, fmt.Sprintf("%s: %s", e.Name, strings.TrimSpace(line)))
		}
	}
	for _, f := range drawn {
		var source template.URL
		err := panics.Catch(func() (err error) { source, err = page.Image(f.Figure); return err })
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: figure %s: %s", e.Name, f.Name, firstLine(err.Error())))
			continue
		}
		s.Figures = append(s.Figures, picture{f.Name, f.Caption, source})
	}
	return problems
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// linkTo returns the relative link from a page to a file; its path where there is none.
func linkTo(page, file string) string {
	from, err := filepath.Abs(filepath.Dir(page))
	if err != nil {
		return filepath.ToSlash(file)
	}
	to, err := filepath.Abs(file)
	if err != nil {
		return filepath.ToSlash(file)
	}
	relative, err := filepath.Rel(from, to)
	if err != nil {
		return filepath.ToSlash(to)
	}
	return filepath.ToSlash(relative)
}
