package ownimages

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/semcon/semcon/sccore/study"
)

// Records returns the last value of each column of a run's metrics as a record, so that runs can be compared. Their seed is 0, and the run's own is a
// setting: two runs are compared whatever their seeds. The error is an [fs.ErrNotExist] if the folder holds no run.
func Records(out string) (records []study.Record, err error) {
	content, err := os.ReadFile(filepath.Join(out, runFile))
	if err != nil {
		return nil, err
	}
	var about description
	config := map[string]any{}
	if err := json.Unmarshal(content, &about); err != nil {
		return nil, fmt.Errorf("%s: %.300w", filepath.Join(out, runFile), err)
	}
	if err := json.Unmarshal(about.Config, &config); err != nil {
		return nil, fmt.Errorf("%s: config: %.300w", filepath.Join(out, runFile), err)
	}
	config["(seed)"], config["(init)"] = about.Seed, about.Init
	encoded, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	points, err := ReadMetrics(filepath.Join(out, MetricsFile))
	if err != nil {
		return nil, fmt.Errorf("the run has no metrics yet: %v", err)
	}
	last := map[string]string{}
	for _, point := range points {
		for column, text := range point {
			if _, known := last[column]; known && text == "" { // It was not measured at this step.
				continue
			}
			last[column] = text
		}
	}
	for column, text := range last {
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			records = append(records, study.Record{
				Experiment: "train", Cell: filepath.Base(out), Row: "last", Column: column, Value: value, Config: encoded, ConfigHash: study.Hash(encoded),
				Data: about.Images + ", content " + about.Content, Curve: MetricsFile,
			})
		}
	}
	return records, nil
}

// ReadMetrics reads the points of a run's metrics by column; what was not measured is empty. The error names the file.
func ReadMetrics(file string) (points []map[string]string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	table := csv.NewReader(f)
	columns, err := table.Read()
	for err == nil {
		var row []string
		if row, err = table.Read(); err == nil {
			point := map[string]string{}
			for place, column := range columns {
				point[column] = row[place]
			}
			points = append(points, point)
		}
	}
	if !errors.Is(err, io.EOF) {
		return points, fmt.Errorf("%s: %w", file, err)
	}
	return points, nil
}
