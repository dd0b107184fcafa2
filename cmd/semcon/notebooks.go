package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

//go:embed execute_notebook.py
var executeScript string

func notebooksVerb(c *cobra.Command, flags flagTexts) {
	var f struct {
		Profile   study.Profile
		Out, Data string
		Timeout   time.Duration
		Update    bool
	}
	flags.bind(c, &f)
	c.Run = func(c *cobra.Command, names []string) {
		refuse(f.Timeout < 0, "--timeout %s is negative", f.Timeout)
		requireWritable("out", f.Out)
		requireFolder("data", f.Data)
		in := try.E1(installOf(false))
		files := notebookFiles(filepath.Join(in.root, "notebooks"), names)
		// The cells read the command line through package nb. They run in the folder of the notebook, so paths are absolute.
		env := append(in.environ(), "SEMCON_PROFILE="+string(f.Profile), "SEMCON_OUT="+try.E1(filepath.Abs(f.Out)))
		if f.Data != "" {
			env = append(env, "SEMCON_DATA="+try.E1(filepath.Abs(f.Data)))
		}
		folder := filepath.Join(f.Out, "notebooks")
		twice := lo.FindDuplicatesBy(files, filepath.Base)
		refuse(len(twice) > 0, "%s: another notebook has this name, and the results of both would be one file", strings.Join(twice, ", "))
		try.E(in.ensure(c.Context(), os.Stderr))
		try.E(os.MkdirAll(folder, 0o777))
		for _, file := range files {
			result := filepath.Join(folder, strings.TrimSuffix(filepath.Base(file), ".ipynb"))
			python := exec.CommandContext(c.Context(), in.python(), "-c", executeScript,
				file, result+".ipynb", result+".html", strconv.Itoa(int(f.Timeout.Seconds()+0.5)), headlessKernelName)
			python.Env = env
			execute(c.Context(), python, file, result)
			if f.Update {
				clean, err := cleanNotebook(try.E1(os.ReadFile(result+".ipynb")), in.root)
				fail(err != nil, "%s.ipynb: %w", result, err)
				try.E(atomicfile.WriteBytes(file, clean))
			}
			fmt.Println(result + ".html")
		}
	}
}

// notebookFiles finds the named notebooks: with or without .ipynb, in the folder or at a path. Without names it returns all notebooks in the folder.
func notebookFiles(folder string, names []string) (files []string) {
	if len(names) == 0 {
		files = try.E1(filepath.Glob(filepath.Join(folder, "*.ipynb")))
		fail(len(files) == 0, "no notebook in %s", folder)
	}
	for _, name := range names {
		name = strings.TrimSuffix(name, ".ipynb") + ".ipynb"
		places := []string{filepath.Join(folder, name), name}
		i := slices.IndexFunc(places, exists)
		refuse(i < 0, "no notebook %s in %s", name, folder)
		files = append(files, places[i])
	}
	return files
}

// execute runs the script that executes a notebook, and shows its progress. Results are at a path without its extension: .ipynb, .html, and .log with the
// kernel's own messages.
func execute(ctx context.Context, python *exec.Cmd, notebook, result string) {
	log := try.E1(os.Create(result + ".log"))
	defer log.Close()
	python.Stderr = log
	stopGently(python)
	stdout := try.E1(python.StdoutPipe())
	try.E(python.Start())
	failure := followCells(bufio.NewScanner(stdout), result)
	err := python.Wait()
	try.E(cmp.Or(ctx.Err(), failure))
	fail(err != nil, "%s was not executed (%w); the log is %s", notebook, err, log.Name())
}

// followCells shows the lines of execute_notebook.py in a bar and returns the failure that they name.
func followCells(lines *bufio.Scanner, result string) (failure error) {
	lines.Buffer(nil, 64<<20) // A cell may print a lot before it fails.
	var bar progress.Bar = progress.Discard
	defer func() { bar.Close() }()
	done, name := 0, filepath.Base(result)
	for lines.Scan() {
		var r struct {
			Total, Start, Done int
			Failed             *int
			Error, Stderr      string
		}
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // A message of some library.
		}
		switch {
		case r.Total > 0:
			bar = progress.New(os.Stderr, name, r.Total)
			bar.Set(0, "starting kernel")
		case r.Start > 0:
			bar.Set(done, fmt.Sprintf("running cell %d", r.Start))
		case r.Done > 0:
			done = r.Done
			bar.Set(done, "")
		case r.Failed != nil:
			failure = fmt.Errorf("%s.ipynb, cell %d: %s (see %s.html)", name, *r.Failed, cellError(r.Error, r.Stderr), result)
		}
	}
	return failure
}

// lineOfCell matches the kernel's mark for a line of a cell in a stack trace.
var lineOfCell = regexp.MustCompile(`\[\[ Cell (?:\[\d+\] )?Line \d+ \]\]`)

// cellError finds the line that explains the failure of a cell. The message of the compiler is in the error itself. A cell that compiled but
// failed prints the reason and the line on standard error; the error then holds only the exit status.
func cellError(message, stderr string) string {
	where := strings.Trim(lineOfCell.FindString(stderr), "[ ]")
	if where != "" {
		where = ", " + where
	}
	for _, clue := range []struct{ text, mark, where string }{{message, ".go:", ""}, {stderr, "panic: ", where}, {stderr, "error: ", where}} {
		for line := range strings.Lines(clue.text) {
			if strings.Contains(line, clue.mark) {
				return strings.TrimSpace(line) + clue.where
			}
		}
	}
	return oneLine(errors.New(message))
}

// cleanNotebook returns an executed notebook to commit. It removes what would differ on another machine or in the next run: execution times, versions, and the
// path of the checkout.
func cleanNotebook(content []byte, root string) (_ []byte, err error) {
	defer try.Handle(&err)
	var notebook map[string]any
	try.E(decodeNumbers(content, &notebook))
	cells, ok := notebook["cells"].([]any)
	fail(!ok, "it has no list of cells")
	for _, cell := range cells {
		cell, _ := cell.(map[string]any)
		metadata, _ := cell["metadata"].(map[string]any)
		delete(metadata, "execution")
		if outputs, ok := cell["outputs"]; ok { // Only code cells have outputs.
			cell["outputs"] = withoutPath(outputs, root)
			smallPictures(cell["outputs"])
		}
	}
	notebook["metadata"] = map[string]any{
		"kernelspec":    map[string]any{"name": "gonb", "display_name": "Go (gonb)", "language": "go"},
		"language_info": map[string]any{"name": "go", "mimetype": "text/x-go", "file_extension": ".go"},
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ") // Like Jupyter, with sorted keys.
	err = encoder.Encode(notebook)
	return out.Bytes(), err
}

// withoutPath makes every path below the checkout in the texts of a JSON value relative to it.
func withoutPath(value any, root string) (relative any) {
	text := try.E1(json.Marshal(value))
	quoted := strings.Trim(string(try.E1(json.Marshal(root))), `"`)
	text = regexp.MustCompile(regexp.QuoteMeta(quoted)+"/").ReplaceAll(text, nil)
	text = regexp.MustCompile(regexp.QuoteMeta(quoted)+`([^\w-])`).ReplaceAll(text, []byte(".$1")) // Not /a/semcon-data for the checkout /a/semcon.
	try.E(decodeNumbers(text, &relative))
	return relative
}

// decodeNumbers decodes JSON whose numbers keep their digits.
func decodeNumbers(content []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	return decoder.Decode(to)
}

// Types of the pictures in a notebook's outputs.
const (
	typePNG  = "image/png"
	typeJPEG = "image/jpeg"
	typeSVG  = "image/svg+xml"
	typeHTML = "text/html"
)

// embedded is a PNG inside a page, as the report of a training has it: in base64 with characters escaped.
var embedded = regexp.MustCompile(`data:image/png;base64,[A-Za-z0-9+/=&#;]+`)

// smallPictures makes the pictures in a cell's outputs small, since they are committed whenever they change. A plot, which has both forms, stays as a PNG
// of few colours. A PNG of pixels becomes a JPEG if that saves a third, also inside a page. Pictures that cannot be read stay as they are.
func smallPictures(outputs any) {
	list, _ := outputs.([]any)
	for _, output := range list {
		output, _ := output.(map[string]any)
		data, _ := output["data"].(map[string]any)
		lines, _ := data[typeHTML].([]any) // Jupyter stores text as lines.
		for i := range lines {
			if line, ok := lines[i].(string); ok {
				lines[i] = embedded.ReplaceAllStringFunc(line, func(picture string) string {
					_, stored, _ := strings.Cut(picture, ",")
					if small, ok := shrunk(html.UnescapeString(stored), asJPEG, 2.0/3); ok {
						return "data:" + typeJPEG + ";base64," + html.EscapeString(small)
					}
					return picture
				})
			}
		}
		text, ok := data[typePNG].(string)
		if !ok {
			continue
		}
		if _, plot := data[typeSVG]; plot {
			delete(data, typeSVG)
			if small, ok := shrunk(text, asFewColours, 1); ok {
				data[typePNG] = small
			}
		} else if small, ok := shrunk(text, asJPEG, 2.0/3); ok {
			delete(data, typePNG)
			data[typeJPEG] = small
		}
	}
}

// shrunk returns a PNG in base64 in another form, and false if it cannot be read or written so, or would not be below a share of its size.
func shrunk(text string, as func(io.Writer, image.Image) error, share float64) (string, bool) {
	stored, _ := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
	picture, err := png.Decode(bytes.NewReader(stored))
	var small bytes.Buffer
	if err != nil || as(&small, picture) != nil || float64(small.Len()) >= share*float64(len(stored)) {
		return "", false
	}
	return base64.StdEncoding.EncodeToString(small.Bytes()), true
}

// asJPEG writes a picture in a quality that is legible in letters at half the size of the usual one.
func asJPEG(w io.Writer, picture image.Image) error {
	return jpeg.Encode(w, picture, &jpeg.Options{Quality: 60})
}

// asFewColours rounds the colours of an opaque picture to at most 256: to 16 levels a channel, which show in no line or letter, or, for the many shades of
// translucent points, to 8.
func asFewColours(w io.Writer, picture image.Image) error {
	for _, levels := range []uint32{16, 8} {
		few := image.NewPaletted(picture.Bounds(), nil)
		places := map[color.RGBA]uint8{}
		for y := few.Rect.Min.Y; y < few.Rect.Max.Y && len(few.Palette) <= 256; y++ {
			for x := few.Rect.Min.X; x < few.Rect.Max.X; x++ {
				r, g, b, _ := picture.At(x, y).RGBA()
				level := func(v uint32) uint8 { return uint8((v*(levels-1) + 0x7fff) / 0xffff * 255 / (levels - 1)) }
				c := color.RGBA{level(r), level(g), level(b), 255}
				if _, ok := places[c]; !ok {
					places[c], few.Palette = uint8(len(few.Palette)), append(few.Palette, c)
				}
				few.SetColorIndex(x, y, places[c])
			}
		}
		if len(few.Palette) <= 256 {
			return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(w, few)
		}
	}
	return errors.New("too many colours")
}
