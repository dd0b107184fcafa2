package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/page"
)

//go:embed compare.html
var comparisonText string

var comparisonTemplate = page.Template(comparisonText)

// sparks is the number of characters of a curve in text.
const sparks = 24

// Text describes the comparison for a terminal.
func (c Comparison) Text() string {
	var b strings.Builder
	section := func(title string, write func(w *tabwriter.Writer)) {
		fmt.Fprintf(&b, "\n%s\n", title)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		write(w)
		_ = w.Flush() // Builders do not fail.
	}
	fmt.Fprintf(&b, "A  %s\nB  %s\n", c.Names[0], c.Names[1])
	section("settings that differ", func(w *tabwriter.Writer) {
		if len(c.Settings) == 0 {
			fmt.Fprintln(w, "  none")
			return
		}
		fmt.Fprintln(w, "  \tA\tB")
		for _, d := range c.Settings {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", d.Key, orNone(d.Values[0]), orNone(d.Values[1]))
		}
	})
	section("numbers, B − A paired by seed, with 95 % intervals", func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "  \tA\tB\tB − A\tby seed")
		for _, p := range c.Numbers {
			means, name := p.Means(), p.Name
			if p.Metric != "" {
				name += " (" + strings.TrimSuffix(p.Metric+", "+p.Unit, ", ") + ")"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", name, means[0], means[1], p.Difference(), p.BySeed())
		}
	})
	section("curves, from the first step to the last", func(w *tabwriter.Writer) {
		if len(c.Curves) == 0 {
			fmt.Fprintln(w, "  the runs have none in common")
		}
		for _, f := range c.Curves {
			low, high := slices.Min(f.Series[0].Y), slices.Max(f.Series[0].Y)
			for _, s := range f.Series {
				low, high = min(low, slices.Min(s.Y)), max(high, slices.Max(s.Y))
			}
			for i, s := range f.Series {
				fmt.Fprintf(w, "  %s\t%s\t%.4g\t%s\t%.4g\n", []string{f.Y, ""}[i], []string{"A", "B"}[i], s.Y[0], spark(s.Y, low, high), s.Y[len(s.Y)-1])
			}
		}
	})
	for _, line := range c.Missing {
		fmt.Fprintf(&b, "not read: %s\n", line)
	}
	return b.String()
}

func orNone(text string) string {
	if text == "" {
		return "—"
	}
	return text
}

// spark draws values between two bounds in a line of characters.
func spark(values []float64, low, high float64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	var line []rune
	n := min(len(values), sparks)
	for i := range n {
		value := values[i*(len(values)-1)/max(1, n-1)]
		level := 0
		if high > low {
			level = int((value - low) / (high - low) * float64(len(levels)-1))
		}
		line = append(line, levels[min(max(level, 0), len(levels)-1)])
	}
	return string(line)
}

// panels is the number of curves beside each other on the page.
const panels = 3

// Write writes the comparison as a page.
func (c Comparison) Write(file string) error {
	var rows []template.URL
	for row := range slices.Chunk(c.Curves, panels) {
		drawn, err := page.Image(figures.CurvesRow(row))
		if err != nil {
			return err
		}
		rows = append(rows, drawn)
	}
	return page.Write(file, comparisonTemplate, struct {
		Comparison
		Rows []template.URL
	}{c, rows})
}
