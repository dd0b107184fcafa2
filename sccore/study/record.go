package study

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/jsonstream"
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
	Encoder string             `json:"encoder"` // File of the encoder, or of the network or heads on it, that the run has left, like Curve; empty if it has left none.
	Skipped []string           `json:"skipped"` // Files that the reader skipped, with the reason.

	Backend  string            `json:"backend"`
	Versions map[string]string `json:"versions"` // Of Go, the libraries and the project, and under "jpeg" what decodes JPEG files.
	Seconds  float64           `json:"seconds"`  // Wall time of training and evaluation, summed over all calls.
	Finished time.Time         `json:"finished"`

	Efficiency *Efficiency `json:"efficiency,omitempty"` // Of the training behind the number; nil without one.

	// Line is the number of the record's line in its file, from 1; 0 for a record that was not read from one.
	Line int `json:"-"`
	// LeftOut is the number of lines of the same file that are no records.
	LeftOut int `json:"-"`
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
		if r.Curve != "" && path.Ext(r.Curve) == "" { // The folder of what has been trained.
			file := "model.safetensors"
			if r.Experiment == "transfer" {
				file = "heads.safetensors"
			}
			r.Encoder, r.Curve = path.Join(r.Curve, file), ""
		}
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
		return fmt.Errorf("configuration of record %s, %s: %w", r.Cell, cmp.Or(r.Place(), "of no file"), err)
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

// BrokenFile receives the broken lines that [Repair] and [Record.Append] move, in an experiment's folder.
const BrokenFile = "runs.broken.jsonl"

// maxLine is the longest line of a records file that is read, in bytes. The longest that an experiment has written has a few KiB.
const maxLine = 16 << 20

// Append adds the record with a digest of its line to dir/runs.jsonl: one line in one synced write, with one writer at a time on the whole machine. A last line that a
// kill cut short is removed first: its run has no record and runs again. A damaged last line with a digest is moved to [BrokenFile].
func (r Record) Append(dir string) (err error) {
	path := filepath.Join(dir, RunsFile)
	defer func() {
		if err != nil {
			err = fmt.Errorf("recording in %s: %w", path, err)
		}
	}()
	line, err := json.Marshal(r)
	if err == nil {
		_, err = parseRecord(line)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	writers := flock.New(path + ".lock")
	if err := writers.Lock(); err != nil {
		return err
	}
	defer writers.Close()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := removeTail(file, dir); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(file, "%s,\"digest\":%q}\n", line[:len(line)-1], Hash(line)); err != nil {
		return err
	}
	return file.Sync()
}

// digestBegin stands in lines that were written to their end.
var digestBegin = []byte(`,"digest":"`)

// removeTail cuts off whatever follows the last line break, unless it is a record. What has a digest is kept in [BrokenFile].
func removeTail(file *os.File, dir string) error {
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		return err
	}
	begin := max(0, info.Size()-maxLine)
	tail := make([]byte, info.Size()-begin)
	if _, err := file.ReadAt(tail, begin); err != nil {
		return err
	}
	last := bytes.LastIndexByte(tail, '\n') + 1
	switch _, err := parseRecord(tail[last:]); {
	case last == len(tail): // Nothing follows.
		return nil
	case last == 0 && begin > 0:
		return fmt.Errorf("its last line is longer than %d MiB", maxLine>>20)
	case err == nil:
		_, err := file.Write([]byte{'\n'})
		return err
	case bytes.Contains(tail[last:], digestBegin):
		if err := setAside(dir, append(tail[last:], '\n')); err != nil {
			return err
		}
	}
	return file.Truncate(begin + int64(last))
}

// Records reads the records of the experiment whose folder is dir; it returns none if the experiment has not run. It skips broken lines, which
// [BrokenLines] lists.
func Records(dir string) ([]Record, error) {
	records, _, err := readRecords(dir)
	return records, err
}

// BrokenLines lists, with file and line number, the lines of an experiment's records file that are not records, or whose digest is that of another content. It does
// not list a last line without a line break and a digest: a kill has cut it short, and its run runs again.
func BrokenLines(dir string) ([]string, error) {
	_, broken, err := readRecords(dir)
	return broken, err
}

func readRecords(dir string) (records []Record, broken []string, err error) {
	path := filepath.Join(dir, RunsFile)
	err = eachLine(path, func(number int, line []byte) {
		r, err := parseRecord(line)
		switch {
		case err == nil:
			r.Line = number
			records = append(records, r)
		case bytes.HasSuffix(line, []byte{'\n'}) || bytes.Contains(line, digestBegin):
			broken = append(broken, fmt.Sprintf("%s, line %d is not a record: %v", path, number, err))
		}
	})
	for i := range records {
		records[i].LeftOut = len(broken)
	}
	upgrade(records)
	return records, broken, err
}

// eachLine calls each with the lines of a file that are not blank, with their line breaks. A file that is not there has none.
func eachLine(path string, each func(number int, line []byte)) error {
	file, err := jsonstream.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	number, lines := 0, bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	lines.Split(func(data []byte, atEnd bool) (int, []byte, error) {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 && atEnd {
			end = len(data)
		}
		if end == 0 {
			return 0, nil, nil
		}
		return end, data[:end], nil
	})
	for lines.Scan() {
		number++
		if line := lines.Bytes(); len(bytes.TrimSpace(line)) > 0 {
			each(number, line)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s, line %d: longer than %d MiB", path, number+1, maxLine>>20)
	}
	return lines.Err()
}

// digestField is the end of a line with a digest: of the record that stands before it, with its closing brace.
var digestField = regexp.MustCompile(`,"digest":"([0-9a-f]*)"}$`)

// parseRecord reads one line. Lines of earlier versions have no digest; every field of them is known.
func parseRecord(line []byte) (r Record, err error) {
	line = bytes.TrimSpace(line)
	if at := digestField.FindSubmatchIndex(line); at != nil {
		digest := string(line[at[2]:at[3]])
		if line = append(line[:at[0]:at[0]], '}'); Hash(line) != digest {
			return r, errors.New("its digest is not that of its content")
		}
	} else {
		strict := json.NewDecoder(bytes.NewReader(line))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&r); err != nil {
			return r, err
		}
	}
	r = Record{}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Cell == "" {
		return r, errors.New("the cell is missing")
	}
	if !bytes.HasPrefix(r.Config, []byte{'{'}) {
		return r, errors.New("the configuration is missing")
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
	var whole, aside []byte
	if err := eachLine(path, func(_ int, line []byte) {
		if _, err := parseRecord(line); err != nil {
			aside = append(append(aside, bytes.TrimRight(line, "\n")...), '\n')
			moved++
		} else {
			whole = append(whole, line...)
		}
	}); err != nil || moved == 0 {
		return 0, err
	}
	if err := setAside(dir, aside); err != nil {
		return 0, err
	}
	return moved, atomicfile.WriteBytes(path, whole)
}

// setAside adds broken lines to their file, before they leave the records: a kill in between duplicates them and loses none.
func setAside(dir string, lines []byte) error {
	kept := filepath.Join(dir, BrokenFile)
	before, err := os.ReadFile(kept)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return atomicfile.WriteBytes(kept, append(before, lines...))
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
