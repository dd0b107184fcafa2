package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/jsonstream"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/rle"
)

// Detection is an object that a detector found in an image.
type Detection struct {
	Image, Category int64 // IDs of COCO.
	Score           float64
	Box             *[4]float64 // x, y, width and height in pixels; nil if there is none.
	Mask            *rle.Mask   // Of the image's size; nil if there is none.
}

// OpenDetections reads a file of [ReadDetections].
func OpenDetections(path string, truth *datasets.Instances) ([]Detection, error) {
	file, err := jsonstream.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadDetections(file, path, truth)
}

// ReadDetections reads a result file of COCO: a JSON list of objects with image_id, category_id, score, and bbox or segmentation or both. Masks may be
// polygons, counts or compressed text. The first detection that is wrong is an error that names the file and the detection's place, from 0: leaving it
// out would change what is measured.
func ReadDetections(r io.Reader, name string, truth *datasets.Instances) (detections []Detection, err error) {
	stream := jsonstream.New(r)
	err = stream.Array(func(i int) error {
		d, err := readDetection(stream, truth)
		if err != nil {
			return fmt.Errorf("detection %d: %w", i, err)
		}
		detections = append(detections, d)
		return nil
	})
	if err == nil {
		err = stream.End()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return detections, nil
}

// WriteDetections writes a result file of COCO, which [ReadDetections] and pycocotools read, one detection a line: masks are compressed text. The error is
// that of the writer.
func WriteDetections(w io.Writer, detections []Detection) error {
	type runs struct {
		Size   [2]int `json:"size"` // Height and width.
		Counts string `json:"counts"`
	}
	text, separator := bufio.NewWriter(w), "[\n"
	for _, d := range detections {
		out := struct {
			Image    int64       `json:"image_id"`
			Category int64       `json:"category_id"`
			Box      *[4]float64 `json:"bbox,omitempty"`
			Score    float64     `json:"score"`
			Mask     *runs       `json:"segmentation,omitempty"`
		}{Image: d.Image, Category: d.Category, Box: d.Box, Score: d.Score}
		if d.Mask != nil {
			height, width := d.Mask.Size()
			out.Mask = &runs{[2]int{height, width}, d.Mask.String()}
		}
		line, err := json.Marshal(out)
		if err != nil {
			return err
		}
		fmt.Fprintf(text, "%s%s", separator, line)
		separator = ",\n"
	}
	if len(detections) == 0 {
		fmt.Fprint(text, "[")
	}
	fmt.Fprint(text, "\n]\n")
	return text.Flush()
}

// WriteDetectionsFile writes a file with [WriteDetections], atomically.
func WriteDetectionsFile(path string, detections []Detection) error {
	var text bytes.Buffer
	if err := WriteDetections(&text, detections); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.WriteBytes(path, text.Bytes())
}

func readDetection(stream *jsonstream.Reader, truth *datasets.Instances) (Detection, error) {
	var d struct {
		Image    *int64                `json:"image_id"`
		Category *int64                `json:"category_id"`
		Score    *float64              `json:"score"`
		Box      []float64             `json:"bbox"`
		Mask     datasets.InstanceMask `json:"segmentation"`
	}
	if err := stream.Decode(&d); err != nil {
		return Detection{}, err
	}
	switch {
	case d.Image == nil:
		return Detection{}, errors.New("it has no image_id")
	case d.Category == nil:
		return Detection{}, errors.New("it has no category_id")
	case d.Score == nil:
		return Detection{}, errors.New("it has no score")
	case len(d.Box) != 0 && len(d.Box) != 4:
		return Detection{}, fmt.Errorf("its bbox has %d numbers, want x, y, width and height", len(d.Box))
	case len(d.Box) == 0 && d.Mask.None():
		return Detection{}, errors.New("it has neither bbox nor segmentation")
	}
	out := Detection{Image: *d.Image, Category: *d.Category, Score: *d.Score}
	size, known := truth.ImageSize(out.Image)
	if !known {
		return Detection{}, fmt.Errorf("%s has no image %d", truth.Name, out.Image)
	}
	if len(d.Box) == 4 {
		out.Box = (*[4]float64)(d.Box)
	}
	if !d.Mask.None() {
		mask, err := d.Mask.Runs(size)
		if err != nil {
			return Detection{}, err
		}
		out.Mask = &mask
	}
	return out, out.check(size)
}

// check finds what no detection in an image of the given size may be.
func (d Detection) check(size datasets.Size) error {
	if !finite(d.Score) {
		return fmt.Errorf("its score is %g", d.Score)
	}
	if d.Box != nil {
		for _, v := range d.Box {
			if !finite(v) {
				return fmt.Errorf("its box has the number %g", v)
			}
		}
		if d.Box[2] < 0 || d.Box[3] < 0 {
			return fmt.Errorf("its box has %g×%g pixels", d.Box[2], d.Box[3])
		}
	}
	if d.Mask != nil {
		if height, width := d.Mask.Size(); height != size.Height || width != size.Width {
			return fmt.Errorf("a mask of %d×%d pixels in an image of %d×%d", width, height, size.Width, size.Height)
		}
	}
	return nil
}

func finite(v float64) bool { return v-v == 0 }
