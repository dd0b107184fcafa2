package theory

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
)

var tailsHeader = []string{"views", "form", "threshold", "p_T", "q_T", "mean p", "mean q"}

// TailsFile collects tail curves for a CSV file.
type TailsFile struct{ records [][]string }

// Add appends the curves of one kind of views in one form.
func (t *TailsFile) Add(views, form string, curves TailCurves) {
	for i, threshold := range curves.Thresholds {
		record := []string{views, form}
		for _, value := range []float64{threshold, curves.View[i], curves.Class[i], curves.MeanView[i], curves.MeanClass[i]} {
			record = append(record, strconv.FormatFloat(value, 'g', -1, 64))
		}
		t.records = append(t.records, record)
	}
}

// Bytes returns the content of the file.
func (t *TailsFile) Bytes() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(append([][]string{tailsHeader}, t.records...)); err != nil {
		panic(err) // A buffer takes everything.
	}
	return b.Bytes()
}

// ReadTails reads the curves of one kind of views in one form. Errors name the file and the line.
func ReadTails(path, views, form string) (TailCurves, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return TailCurves{}, err
	}
	curves, err := parseTails(content, views, form)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return curves, err
}

func parseTails(content []byte, views, form string) (c TailCurves, err error) {
	reader := csv.NewReader(bytes.NewReader(content))
	reader.FieldsPerRecord = len(tailsHeader)
	records, err := reader.ReadAll()
	if err != nil {
		return c, err
	}
	if len(records) == 0 || !slices.Equal(records[0], tailsHeader) {
		return c, fmt.Errorf("the first line is not %q", tailsHeader)
	}
	for i, record := range records[1:] {
		var values [5]float64
		for j := range values {
			if values[j], err = strconv.ParseFloat(record[2+j], 64); err != nil {
				return TailCurves{}, fmt.Errorf("record %d: %w", i+2, err)
			}
		}
		if record[0] == views && record[1] == form {
			c.Thresholds = append(c.Thresholds, values[0])
			c.View, c.Class = append(c.View, values[1]), append(c.Class, values[2])
			c.MeanView, c.MeanClass = append(c.MeanView, values[3]), append(c.MeanClass, values[4])
		}
	}
	if len(c.Thresholds) == 0 {
		return c, fmt.Errorf("no curve of views %q in form %q", views, form)
	}
	return c, nil
}
