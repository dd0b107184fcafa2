package nb

import (
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"
)

// HTML shows a piece of HTML, such as a table.
func HTML(content string) {
	show(map[protocol.MIMEType]any{protocol.MIMETextHTML: content, protocol.MIMETextPlain: plainText(content)}, "")
}

// Figure shows one picture given as SVG and as PNG: JupyterLab draws the sharp one, and sites that strip SVG show the other. Either
// may be nil.
func Figure(svg, png []byte) {
	show(picture(svg, png), "")
}

// A Display is one output of a cell whose content can be replaced while the cell runs, as for a curve that grows.
type Display struct{ id string }

// NewDisplay returns a display that shows nothing yet.
func NewDisplay() *Display { return &Display{gonbui.UniqueId()} }

// HTML replaces the content by a piece of HTML.
func (d *Display) HTML(content string) {
	show(map[protocol.MIMEType]any{protocol.MIMETextHTML: content, protocol.MIMETextPlain: plainText(content)}, d.id)
}

// Figure replaces the content by a picture given as SVG and as PNG, as [Figure] shows them.
func (d *Display) Figure(svg, png []byte) { show(picture(svg, png), d.id) }

// ownSize is where a drawing states its size. JupyterLab shows it at that size and cuts off what a narrow window has no room for, so the drawing
// takes the width that there is; in a page of HTML no more than its own.
var ownSize = regexp.MustCompile(`<svg width="([^"]*)" height="[^"]*"`)

func picture(svg, png []byte) map[protocol.MIMEType]any {
	data := map[protocol.MIMEType]any{protocol.MIMETextPlain: "[figure]"}
	if svg != nil {
		data[protocol.MIMEImageSVG] = ownSize.ReplaceAllString(string(svg), `<svg style="max-width:$1;height:auto" width="100%"`)
	}
	if png != nil {
		data[protocol.MIMEImagePNG] = png
	}
	return data
}

// show sends one output in all its forms; the front-end draws the richest that it can. Outside a notebook it prints the plain text,
// though not for a display that is updated, which would fill the terminal.
func show(data map[protocol.MIMEType]any, displayID string) {
	if gonbui.IsNotebook {
		gonbui.SendData(&protocol.DisplayData{Data: data, DisplayID: displayID})
		gonbui.Sync()
	} else if displayID == "" {
		fmt.Fprintln(os.Stdout, data[protocol.MIMETextPlain])
	}
}

var (
	rowEnd  = regexp.MustCompile(`(?i)</(tr|p|div|h[1-6]|li|caption)>|<br ?/?>`)
	cellEnd = regexp.MustCompile(`(?i)</t[dh]>`)
	tag     = regexp.MustCompile(`<[^>]*>`)
	blank   = regexp.MustCompile(`[ \t]*\n\s*`)
)

// plainText is HTML without its tags: a line for each row of a table, and a tab between its cells.
func plainText(content string) string {
	text := strings.ReplaceAll(content, "\n", " ")
	text = rowEnd.ReplaceAllString(text, "\n")
	text = cellEnd.ReplaceAllString(text, "\t")
	text = html.UnescapeString(tag.ReplaceAllString(text, ""))
	return strings.TrimSpace(blank.ReplaceAllString(text, "\n"))
}
