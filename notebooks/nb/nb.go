// Package nb keeps the cells of the notebooks short. It provides the backend, a progress bar, figures and tables, and the folders of data and
// results. Outside a notebook, the same calls print text to the terminal.
//
// A cell cannot return an error. So the functions of this package print an error in one line and end the cell with a failure. They set [must.M], so that
// must.M(err) and must.M1(value, err) do the same for the errors of other packages.
package nb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"
	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"
	"github.com/janpfeifer/must"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/sccore/backend"
	_ "github.com/semcon/semcon/sccore/backend/buffers" // A notebook keeps large buffers between steps.
	"github.com/semcon/semcon/sccore/ownimages"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights/hub"
)

// Backend returns the backend that computations run on, opened once per cell. Package sccore/backend describes the choice.
func Backend() compute.Backend { return must.M1(openBackend()) }

var openBackend = sync.OnceValues(backend.Open)

// Profile returns the size of the experiments, $SEMCON_PROFILE: smoke, quick, real or full. The default is quick.
func Profile() study.Profile {
	profile, err := study.ParseProfile(cmp.Or(os.Getenv("SEMCON_PROFILE"), string(study.Quick)))
	if err != nil {
		must.M(fmt.Errorf("SEMCON_PROFILE: %w", err))
	}
	return profile
}

// Data returns the folder of the datasets, $SEMCON_DATA, as an absolute path, or "" if it is not set.
func Data() string {
	if data := os.Getenv("SEMCON_DATA"); data != "" {
		return must.M1(filepath.Abs(data))
	}
	return ""
}

// Out returns the folder of the results as an absolute path: $SEMCON_OUT, or out/ in the checkout.
func Out() string {
	return must.M1(filepath.Abs(cmp.Or(os.Getenv("SEMCON_OUT"), filepath.Join(backend.CheckoutRoot(), "out"))))
}

// Published returns the weights of the published ViT-S/14 in the folder that tools/vits14.py makes: $SEMCON_VITS14, or vits14/ in the checkout. It returns ""
// if that file is not there.
func Published() string {
	folder := cmp.Or(os.Getenv("SEMCON_VITS14"), filepath.Join(backend.CheckoutRoot(), "vits14"))
	file := must.M1(filepath.Abs(filepath.Join(folder, "model.safetensors")))
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// Photographs returns a viewer of the two photographs that come with the project, and an encoder for it: the published one, or else a small one that was
// trained on synthetic scenes. Images are cropped to size pixels; 224 and 336 fit both encoders.
func Photographs(size int) (*features.Viewer, features.NamedEncoder) {
	photos, small := must.M2(ownimages.Example(filepath.Join(Out(), "start")))
	encoder := features.NamedEncoder{Name: "a small encoder", File: small}
	if published := Published(); published != "" {
		encoder = features.NamedEncoder{Name: "a published ViT-S/14", File: published}
	}
	return must.M1(ownimages.NewViewer(Backend(), encoder.File, photos, size)), encoder
}

// Options returns the options of an experiment's runs in a notebook, with settings as "key=value". The same options, given to Load, show these runs. of is its Study,
// which says whether it can run on the data folder. Weights may have names of the Hugging Face Hub, as [hub.Locate] takes them.
func Options(of interface{ DataFor(o study.Options) string }, settings ...string) study.Options {
	settings = must.M1(hub.Settings(Context(), settings, hub.Watch{Bar: Progress, Say: func(line string) { fmt.Println(line) }}))
	o := study.Options{Profile: Profile(), Data: Data(), Out: Out(), Set: settings, Parallel: 2, Bar: Progress, CheckpointEvery: 20 * time.Second}
	if o.Profile == study.Full || o.Profile == study.Real { // A step of full size fills the device.
		o.Parallel = 1
	}
	o.Data = of.DataFor(o)
	return o
}

func init() { must.M = check }

// check ends the cell if err is not nil and prints the first line of err. In a notebook, a second line names the line of the cell. After an
// interrupt, check prints that the cell was stopped.
func check(err error) {
	if err == nil {
		return
	}
	if work.Err() != nil && errors.Is(err, context.Canceled) {
		stopped()
	}
	message, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	gonbui.Sync() // Keeps the outputs so far.
	fmt.Fprintf(os.Stderr, "error: %s\n%s", message, cellLine())
	os.Exit(1)
}

// cellLine returns the calling line of the cell in the form of a stack trace, which the kernel translates to the cell and its line. It is empty
// outside a notebook.
func cellLine() string {
	if !gonbui.IsNotebook {
		return ""
	}
	callers := make([]uintptr, 16)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "main.") {
			return fmt.Sprintf("\t%s:%d\n", frame.File, frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// grace is the time that a cell may take to stop. The kernel kills it after five seconds.
const grace = 4 * time.Second

var (
	work, cancelWork = context.WithCancel(context.Background())
	workBegun        atomic.Bool
)

// Context returns the context of the cell's work. It is cancelled when the cell is interrupted. The work then writes a checkpoint, if it has
// one, and returns, and [must.M] ends the cell.
func Context() context.Context {
	workBegun.Store(true)
	return work
}

func init() {
	if gonbui.IsNotebook {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt)
		go func() {
			<-signals
			cancelWork()
			if workBegun.Load() {
				time.Sleep(grace) // XLA cannot be interrupted while it compiles.
			}
			stopped()
		}()
	}
}

// stopped ends an interrupted cell with one line.
var stopped = sync.OnceFunc(func() {
	line := "Stopped."
	if workBegun.Load() {
		line += " Checkpoint kept, run the cell again to continue."
	}
	HTML("<b>" + line + "</b>")
	os.Exit(0) // Another status adds red lines without information. Neither status stops the following cells.
})

// Show shows figures and tables, one below the other. Each of all is a [figures.Figure], something with an HTML method such as [figures.Table], or a slice of
// tables, of which it folds up those that [figures.Measured] leaves out: printed numbers that none of ours compares with. In the profile smoke it says first that
// numbers mean nothing. An error among them ends the cell as [must.M] does, so that Show takes what functions return: nb.Show(results.Curves()).
func Show(all ...any) {
	for _, shown := range all {
		if figure, drawn := shown.(figures.Figure); Profile() == study.Smoke && shown != nil && (!drawn || figures.CSV(figure) != "") {
			warnOfSmoke()
		}
		show(content(shown), "")
	}
}

// warnOfSmoke says once a cell what the numbers of its profile are worth.
var warnOfSmoke = sync.OnceFunc(func() {
	HTML("<p><b>Profile smoke: this shows that everything runs. What was trained or measured in it means nothing.</b></p>")
})

// Keep shows a figure and saves it with its numbers under [Out]: Keep("ablation/trade-off", figure) writes out/ablation/trade-off.svg, .png and .csv.
func Keep(name string, figure figures.Figure) {
	file := filepath.Join(Out(), filepath.FromSlash(name))
	must.M(figures.SaveFigure(filepath.Dir(file), filepath.Base(file), figure))
	Show(figure)
}

// content returns what [Show] draws in all its formats, or nil for a nil error.
func content(shown any) map[protocol.MIMEType]any {
	switch shown := shown.(type) {
	case nil:
		return nil
	case error:
		must.M(shown)
		return nil
	case []figures.Table:
		var all strings.Builder
		measured := figures.Measured(shown)
		for _, table := range measured {
			all.WriteString(table.HTML())
		}
		for _, table := range shown {
			if table.PaperAlone() && len(measured) < len(shown) {
				const printed = "<details><summary>%s as the paper prints it, for its encoders and datasets: none of these numbers is ours</summary>%s</details>"
				fmt.Fprintf(&all, printed, html.EscapeString(table.Title), table.HTML())
			}
		}
		return page(all.String())
	case interface{ HTML() string }:
		return page(shown.HTML())
	case figures.Figure:
		svg, png, err := figures.Render(shown)
		must.M(err)
		if bytes.Contains(svg, []byte("<image")) { // A drawing of pixels holds them a second time.
			svg = nil
		}
		return picture(svg, png)
	}
	must.M(fmt.Errorf("a %T is neither a figure nor a table", shown))
	return nil
}

// Records shows the numbers of all records under [Out], or of the named experiments, as a table with the columns of "semcon records". It returns them.
func Records(experiments ...string) (all []study.Quantity) {
	files := must.M1(fs.Glob(os.DirFS(Out()), "*/"+study.RunsFile))
	for _, file := range files {
		if folder := path.Dir(file); len(experiments) == 0 || slices.Contains(experiments, folder) {
			all = append(all, study.Quantities(must.M1(study.Records(filepath.Join(Out(), folder))))...)
		}
	}
	Show(figures.TextGrid(study.QuantityNames(), lo.Map(all, func(q study.Quantity, _ int) []string { return q.Texts() })))
	return all
}

func page(html string) map[protocol.MIMEType]any {
	return map[protocol.MIMEType]any{protocol.MIMETextHTML: html, protocol.MIMETextPlain: plainText(html)}
}

// HTML shows a piece of HTML, such as a table.
func HTML(content string) { show(page(content), "") }

// Display is an output of a cell whose content can be replaced while the cell runs, such as a growing curve.
type Display struct{ id string }

// NewDisplay returns an empty display.
func NewDisplay() *Display { return &Display{gonbui.UniqueId()} }

// Show replaces the content with a figure or a table, as [Show] shows it.
func (d *Display) Show(shown any) { show(content(shown), d.id) }

// ownSize matches the size in an SVG. JupyterLab draws an SVG at this size and cuts it off in a narrow window. So the size is replaced: the
// figure takes the available width, and in an HTML page at most its own.
var ownSize = regexp.MustCompile(`<svg width="([^"]*)" height="[^"]*"`)

// picture returns a figure in both forms. JupyterLab draws the SVG, and sites that strip SVG show the PNG. Either may be nil.
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

// show sends an output in all its formats, and the front end draws the best one that it supports. Outside a notebook it prints the plain text,
// except for updated displays, which would fill the terminal.
func show(data map[protocol.MIMEType]any, displayID string) {
	if data == nil {
		return
	}
	if gonbui.IsNotebook {
		gonbui.SendData(&protocol.DisplayData{Data: data, DisplayID: displayID})
		gonbui.Sync()
	} else if displayID == "" {
		fmt.Fprintln(os.Stdout, data[protocol.MIMETextPlain])
	}
}

// Progress opens a bar for work of total steps. In a notebook it is one output of the cell, updated in place; in a terminal it is a line. Close
// the bar when the work ends.
func Progress(title string, total int) progress.Bar {
	if !gonbui.IsNotebook {
		return progress.New(os.Stderr, title, total)
	}
	display := NewDisplay()
	const redraw = 250 * time.Millisecond // Limits the messages to the browser.
	return progress.Draw(title, total, redraw, func(s *progress.State) { show(page(barHTML(s)), display.id) })
}

// barHTML draws the bar with elements and styles that are allowed in untrusted pages, so that it shows everywhere.
func barHTML(s *progress.State) string {
	return fmt.Sprintf(`<div style="white-space:nowrap;overflow:hidden;text-overflow:ellipsis">`+
		`<b>%s</b> <progress style="width:16em;vertical-align:middle" max="1" value="%.4f"></progress> <code>%s</code></div>`,
		html.EscapeString(s.Title), s.Fraction(), html.EscapeString(s.Summary()))
}

var (
	rowEnd  = regexp.MustCompile(`(?i)</(tr|p|div|h[1-6]|li|caption)>|<br ?/?>`)
	cellEnd = regexp.MustCompile(`(?i)</t[dh]>`)
	tag     = regexp.MustCompile(`<[^>]*>`)
	blank   = regexp.MustCompile(`\s*\n[ \n]*`) // Keeps the tabs of a row whose first cells are empty.
)

// plainText returns HTML without its tags, with one line per row of a table and tabs between its cells.
func plainText(content string) string {
	text := strings.ReplaceAll(content, "\n", " ")
	text = rowEnd.ReplaceAllString(text, "\n")
	text = cellEnd.ReplaceAllString(text, "\t")
	text = html.UnescapeString(tag.ReplaceAllString(text, ""))
	return strings.Trim(blank.ReplaceAllString(text, "\n"), " \n")
}
