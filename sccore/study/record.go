package study

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/atomicfile"
)

// Record is one measured number with everything needed to interpret it: a line of out/EXPERIMENT/runs.jsonl. Tables and figures are made from
// records alone.
type Record struct {
	Experiment string           `json:"experiment"`
	Cell       string           `json:"cell"`    // As --only addresses it, e.g. "cifar10/simclr/crop+flip/seed0".
	Dataset    string           `json:"dataset"` // As --only addresses it, e.g. "cifar10"; "synthetic" for images that the experiment draws.
	Variant    string           `json:"variant"` // The parts of the cell's name that name neither dataset, row nor seed, e.g. "simclr".
	Kind       figures.DataKind `json:"kind"`    // Whether the data are real or synthetic.
	Row        string           `json:"row"`     // As the experiment names its rows, e.g. "crop+flip".
	Column     string           `json:"column"`  // As the paper's table heads it, e.g. "CIFAR-10/SimCLR".
	Metric     string           `json:"metric"`  // What value measures, e.g. "k-NN accuracy".
	Unit       string           `json:"unit"`    // The unit of value, e.g. "%".
	Value      float64          `json:"value"`
	Seed       int              `json:"seed"`
	Profile    Profile          `json:"profile"`

	Config     json.RawMessage `json:"config"` // What the cell ran with.
	ConfigHash string          `json:"config_hash"`
	Protocol   string          `json:"protocol"`
	// Shared is the configuration that ConfigHash is of and that --set changes, where all cells share it and each runs with a part of it, such as the losses of its
	// line. Earlier versions have recorded it as Config: see [Record.Derived].
	Shared  json.RawMessage    `json:"shared,omitempty"`
	Data    string             `json:"data"`    // Identity of the data.
	Details map[string]float64 `json:"details"` // Further numbers at the end of the run, by name.
	Curve   string             `json:"curve"`   // File of the run's curve, relative to the experiment's folder.
	Encoder string             `json:"encoder"` // File of the encoder that the run has left, relative to the experiment's folder; empty if it has left none.
	Skipped []string           `json:"skipped"` // Files that the reader skipped, with the reason.

	Backend  string            `json:"backend"`
	Versions map[string]string `json:"versions"` // Of Go, the libraries and the project, and under "jpeg" what decodes JPEG files.
	Seconds  float64           `json:"seconds"`  // Wall time of training and evaluation, summed over all calls.
	Finished time.Time         `json:"finished"`

	Efficiency *Efficiency `json:"efficiency,omitempty"` // Of the training behind the number; nil without one.

	// Line is the number of the record's line in its file, from 1; 0 for a record that was not read from one.
	Line int `json:"-"`
	// Derived says that an earlier version has recorded as Config what all lines share, of which this one ran with a part.
	Derived bool `json:"-"`
}

// Place names the record for tables that say where their numbers are from: EXPERIMENT:LINE. It is empty for a record that was not read from a file.
func (r Record) Place() string {
	if r.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", r.Experiment, r.Line)
}

// File returns the path of a file that the record names, such as its curve, below the folder out of the records.
func (r Record) File(out, name string) string {
	return filepath.Join(Folder(out, r.Experiment), filepath.FromSlash(name))
}

// Synthetic is the dataset of records of images that the experiment draws itself.
const Synthetic = "synthetic"

// place fills in the dataset, which is empty for an experiment that draws its own images, its kind and the variant of a cell.
func (r *Record) place(dataset string) {
	r.Dataset, r.Kind = cmp.Or(dataset, Synthetic), figures.Real
	if r.Dataset == Synthetic {
		r.Kind = figures.Synthetic
	}
	parts := strings.Split(r.Cell, "/")
	if parts[0] == r.Dataset {
		parts = parts[1:]
	}
	path := "/" + strings.Join(parts[:max(len(parts)-1, 0)], "/") + "/"
	r.Variant = strings.Trim(strings.Replace(path, "/"+r.Row+"/", "/", 1), "/")
}

// upgrade fills in the fields that the records of earlier versions lack.
func upgrade(records []Record) {
	for i := range records {
		r := &records[i]
		r.Derived = len(r.Shared) == 0 && (r.Experiment == "ablation" || r.Experiment == "over-dispersion") && strings.Contains("/"+r.Cell, "/line")
		if r.Kind != "" {
			continue
		}
		dataset, _, _ := strings.Cut(r.Cell, "/")
		if strings.HasPrefix(r.Data, "synthetic ") || strings.HasPrefix(r.Data, "patches of synthetic ") {
			dataset = Synthetic
		}
		r.place(dataset)
		if r.Experiment != "pretrain" {
			continue
		}
		switch run := path.Dir(path.Dir(r.Curve)); {
		case r.Curve != "":
			r.Encoder = path.Join(path.Dir(r.Curve), "online.safetensors")
		case r.Row == "initialisation":
			// Its run has other records, of stages with a curve.
			for _, other := range records {
				if other.Cell == r.Cell && other.ConfigHash == r.ConfigHash && other.Data == r.Data && other.Curve != "" {
					run = path.Dir(path.Dir(other.Curve))
				}
			}
			r.Encoder = path.Join(run, "init", "online.safetensors")
		}
	}
}

// EncodeConfig encodes a configuration as records hold it.
func EncodeConfig(config any) json.RawMessage {
	encoded, err := json.Marshal(config)
	if err != nil {
		panic(err) // Configurations hold numbers and text alone, which always encode.
	}
	return encoded
}

// DecodeConfig reads the configuration of the record's cell, which cells may share, into what config points to.
func (r Record) DecodeConfig(config any) error {
	encoded := r.Config
	if len(r.Shared) > 0 {
		encoded = r.Shared
	}
	if err := json.Unmarshal(encoded, config); err != nil {
		return fmt.Errorf("configuration of record %s: %w", r.Cell, err)
	}
	return nil
}

// start is what a record's configuration says of the encoder that it begins from or evaluates.
type start struct {
	Init    string // The file that a training starts from.
	Encoder struct{ Architecture, Changed string }
}

// start reads what the configuration has of it.
func (r Record) start() (s start) {
	_ = json.Unmarshal(r.Config, &s) // A field of another type is no file or encoder.
	return s
}

// RunsFile holds an experiment's records, in its folder.
const RunsFile = "runs.jsonl"

// BrokenFile receives the broken lines that [Repair] moves, in an experiment's folder.
const BrokenFile = "runs.broken.jsonl"

// Append adds the record to dir/runs.jsonl: one line in one synced write, with one writer at a time on the whole machine. A last line that a kill cut
// short is removed first: its run has no record and runs again.
func (r Record) Append(dir string) (err error) {
	path := filepath.Join(dir, RunsFile)
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
	if err := removeTail(file); err != nil {
		return err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		return err
	}
	return file.Sync()
}

// removeTail cuts off whatever follows the last line break, unless it is a record.
func removeTail(file *os.File) error {
	content, err := io.ReadAll(file)
	if err != nil || len(content) == 0 || content[len(content)-1] == '\n' {
		return err
	}
	tail := bytes.LastIndexByte(content, '\n') + 1
	if _, err := parseRecord(content[tail:]); err == nil {
		_, err := file.Write([]byte{'\n'})
		return err
	}
	return file.Truncate(int64(tail))
}

// Records reads the records of the experiment whose folder is dir; it returns none if the experiment has not run. It skips broken lines, which
// [BrokenLines] lists.
func Records(dir string) ([]Record, error) {
	records, _, err := readRecords(dir)
	return records, err
}

// BrokenLines lists, with file and line number, the lines of an experiment's records file that are not records. It does not list a last line without a
// line break: a kill has cut it short, and its run runs again.
func BrokenLines(dir string) ([]string, error) {
	_, broken, err := readRecords(dir)
	return broken, err
}

func readRecords(dir string) (records []Record, broken []string, err error) {
	path := filepath.Join(dir, RunsFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	lines := bytes.Split(content, []byte{'\n'})
	for i, line := range lines {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r, err := parseRecord(line)
		switch {
		case err == nil:
			r.Line = i + 1
			records = append(records, r)
		case i < len(lines)-1:
			broken = append(broken, fmt.Sprintf("%s, line %d is not a record: %v", path, i+1, err))
		}
	}
	upgrade(records)
	return records, broken, nil
}

// parseRecord reads one line.
func parseRecord(line []byte) (r Record, err error) {
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Cell == "" {
		return r, errors.New("the cell is missing")
	}
	return r, nil
}

// Repair moves the broken lines of an experiment's records to [BrokenFile] and returns their number.
func Repair(dir string) (moved int, err error) {
	path := filepath.Join(dir, RunsFile)
	writers := flock.New(path + ".lock")
	if err := writers.Lock(); err != nil {
		return 0, err
	}
	defer writers.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var whole, aside []byte
	for line := range bytes.Lines(content) {
		if _, err := parseRecord(line); err != nil && len(bytes.TrimSpace(line)) > 0 {
			aside = append(append(aside, bytes.TrimRight(line, "\n")...), '\n')
			moved++
		} else {
			whole = append(whole, line...)
		}
	}
	if moved == 0 {
		return 0, nil
	}
	// The broken lines are written to their new file first: a kill in between duplicates them and loses none.
	kept := filepath.Join(dir, BrokenFile)
	before, err := os.ReadFile(kept)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	if err := atomicfile.WriteBytes(kept, append(before, aside...)); err != nil {
		return 0, err
	}
	return moved, atomicfile.WriteBytes(path, whole)
}

// pathOmitter is a configuration with paths of files, which its hash leaves out.
type pathOmitter interface {
	// OmitPaths clears the paths.
	OmitPaths()
}

// hashedConfig is the JSON of the part of a configuration that is hashed.
func hashedConfig(config any) json.RawMessage {
	hashed := reflect.New(reflect.TypeOf(config))
	hashed.Elem().Set(reflect.ValueOf(config))
	if c, ok := hashed.Interface().(pathOmitter); ok {
		c.OmitPaths()
	}
	return EncodeConfig(hashed.Elem().Interface())
}

// ConfigHash identifies a configuration.
func ConfigHash(config any) string { return Hash(hashedConfig(config)) }

// Hash identifies content by the first 12 hexadecimal digits of its SHA-256.
func Hash(parts ...[]byte) string {
	sum := sha256.Sum256(bytes.Join(parts, nil))
	return hex.EncodeToString(sum[:])[:12]
}
