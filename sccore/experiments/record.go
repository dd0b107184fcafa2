// Package experiments says what is run: one recipe for each table of the paper, in three profiles, and the records that runs leave.
package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/semcon/semcon/internal/atomicfile"
)

// Record is one measured number and all that stands behind it: a line of out/EXPERIMENT/runs.jsonl. Tables and figures are made from
// records alone.
type Record struct {
	Experiment string  `json:"experiment"`
	Cell       string  `json:"cell"`   // As --only addresses it, e.g. "cifar10/simclr/crop+flip/seed0".
	Row        string  `json:"row"`    // As the experiment names its rows, e.g. "crop+flip".
	Column     string  `json:"column"` // As the paper's table heads it, e.g. "CIFAR-10/SimCLR".
	Metric     string  `json:"metric"` // What value measures, e.g. "k-NN accuracy".
	Unit       string  `json:"unit"`   // Of value, e.g. "%".
	Value      float64 `json:"value"`
	Seed       int     `json:"seed"`
	Profile    Profile `json:"profile"`

	Config     json.RawMessage    `json:"config"` // Resolved: profile and --set applied.
	ConfigHash string             `json:"config_hash"`
	Protocol   string             `json:"protocol"`
	Data       string             `json:"data"`    // Identity of what was read.
	Details    map[string]float64 `json:"details"` // Further numbers at the end of the run, by name.
	Curve      string             `json:"curve"`   // File of the run's course, relative to the experiment's folder.
	Skipped    []string           `json:"skipped"` // Files that the reader left out, with the reason.

	Backend  string            `json:"backend"`
	Versions map[string]string `json:"versions"`
	Seconds  float64           `json:"seconds"` // Wall time of training and evaluation, over all attempts.
	Finished time.Time         `json:"finished"`
}

// configJSON is a configuration as it stands in records.
func configJSON(config any) json.RawMessage {
	encoded, err := json.Marshal(config)
	if err != nil {
		panic(err) // Numbers and text.
	}
	return encoded
}

// configuration reads the record's configuration into what config points to.
func (r Record) configuration(config any) error {
	if err := json.Unmarshal(r.Config, config); err != nil {
		return fmt.Errorf("the configuration of record %s: %w", r.Cell, err)
	}
	return nil
}

// runsFile is where an experiment's records stand, below its folder.
const runsFile = "runs.jsonl"

// Append adds the record to dir/runs.jsonl: one line, one write, synced, one writer at a time on the whole machine. A line that an earlier process left half-written is
// closed off first, so that it cannot swallow this one.
func (r Record) Append(dir string) (err error) {
	path := filepath.Join(dir, runsFile)
	defer func() {
		if err != nil {
			err = fmt.Errorf("recording in %s: %w", path, err)
		}
	}()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	writers := flock.New(path + ".lock")
	if err := writers.Lock(); err != nil {
		return err
	}
	defer writers.Close()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	last := make([]byte, 1)
	if info, err := file.Stat(); err != nil {
		return err
	} else if info.Size() > 0 {
		if _, err := file.ReadAt(last, info.Size()-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		return err
	}
	return file.Sync()
}

// Records reads the records of the experiment whose folder is dir; none if it has not run. A last line that is not whole is left out,
// as its run was stopped while writing it and will be run again; any other broken line is an error naming file and line.
func Records(dir string) ([]Record, error) {
	path := filepath.Join(dir, runsFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var records []Record
	lines := bytes.Split(content, []byte{'\n'})
	for i, line := range lines {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			if !json.Valid(line) {
				continue // Cut short by a kill; Append closed it off.
			}
			return nil, fmt.Errorf("%s, line %d: %w", path, i+1, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// hashOf names a configuration: the first 12 hexadecimal digits of the SHA-256 of its JSON.
func hashOf(config json.RawMessage) string {
	sum := sha256.Sum256(config)
	return hex.EncodeToString(sum[:])[:12]
}

// Point is one moment of a run: a line of its curve file. It holds nothing that depends on the machine's speed, so that a resumed run's
// curve equals an uninterrupted one's, byte for byte.
type Point struct {
	Step         int     `json:"step"`
	Epoch        float64 `json:"epoch"`
	Loss         float64 `json:"loss"` // Mean over the epoch that ends here.
	LearningRate float64 `json:"learning_rate"`
	// Evaluated tells whether the fields below were measured here.
	Evaluated     bool    `json:"evaluated"`
	KNN           float64 `json:"knn"` // Accuracy on the test images, %.
	FeatureStd    float64 `json:"feature_std"`
	EffectiveRank float64 `json:"effective_rank"`
	// Within and Between are the spread of patch features within and between classes, see metrics.ClassSpread; 0 without labels.
	Within  float64 `json:"within,omitempty"`
	Between float64 `json:"between,omitempty"`
}

// ReadCurve reads a curve file.
func ReadCurve(path string) ([]Point, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var points []Point
	decoder := json.NewDecoder(bytes.NewReader(content))
	for decoder.More() {
		var p Point
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		points = append(points, p)
	}
	return points, nil
}

// recordKey identifies a run of one number: its cell, its configuration's hash, and what it reads.
func recordKey(cell, hash, data string) string { return cell + " " + hash + " " + data }

// recordedOn are the keys of the records in an experiment's folder.
func recordedOn(dir string) (map[string]bool, error) {
	records, err := Records(dir)
	if err != nil {
		return nil, err
	}
	recorded := map[string]bool{}
	for _, r := range records {
		recorded[recordKey(r.Cell, r.ConfigHash, r.Data)] = true
	}
	return recorded, nil
}

// writeCurve replaces the curve file.
func writeCurve(path string, points []Point) error {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	for _, p := range points {
		if err := encoder.Encode(p); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return atomicfile.WriteBytes(path, content.Bytes())
}
