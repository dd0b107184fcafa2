// Package page makes self-contained HTML pages, which ask nothing of the network and print well.
//
// In go the text of a template, its data and figures. Out comes one file with the style of all pages.
package page

import (
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/atomicfile"
)

//go:embed style.css
var style string

// Template parses the template of a page, a constant. {{template "head" TITLE}} in it begins the head of the page, with the style of all pages; the page
// may add to it before </head>. A text that is no template panics.
func Template(text string) *template.Template {
	t := template.Must(template.New("page").Parse(text))
	return template.Must(t.New("head").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.}}</title>
<link rel="icon" href="data:,">
<style>
` + style + `</style>`))
}

// Write fills a template with data and writes the page to a file, atomically.
func Write(file string, t *template.Template, data any) error {
	return atomicfile.Write(file, func(w io.Writer) error { return t.Lookup("page").Execute(w, data) })
}

// Image draws a figure into the page itself: plots as SVG, pictures as PNG, which is smaller for them. The URL is the source of an img element.
func Image(figure figures.Figure) (url template.URL, err error) {
	defer try.Handle(&err)
	svg, png := try.E2(figures.Render(figure))
	kind, content := "svg+xml", svg
	if figures.CSV(figure) == "" {
		kind, content = "png", png
	}
	return template.URL("data:image/" + kind + ";base64," + base64.StdEncoding.EncodeToString(content)), nil
}
