package study

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
)

// Record is one measured number with everything needed to interpret it: a line of out/EXPERIMENT/runs.jsonl. Tables and figures are made from records alone.
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
	Data    string             `json:"data"`            // Identity of the data.
	Details map[string]float64 `json:"details"`         // Further numbers at the end of the run, by name.
	Curve   string             `json:"curve"`           // File of the run's curve, relative to the experiment's folder.
	Encoder string             `json:"encoder"`         // File of the encoder, or of the network or heads on it, that the run has left, like Curve; empty if it has left none.
	Images  string             `json:"images,omitzero"` // File of the counts of each test image behind the value, like Curve; empty without counts. See [stats.ByImage].
	Skipped []string           `json:"skipped"`         // Files that the reader skipped, with the reason.

	Backend  string            `json:"backend"`
	Versions map[string]string `json:"versions"` // Of Go, the libraries and the project, and under "jpeg" what decodes JPEG files.
	Seconds  float64           `json:"seconds"`  // Wall time of training and evaluation, summed over all calls.
	Finished time.Time         `json:"finished"`

	Efficiency *Efficiency `json:"efficiency,omitempty"` // Of the training behind the number; nil without one.

	// Folder is the experiment's folder that the record was read from; empty for one that was not read from a file.
	Folder string `json:"-"`
	// Line is the number of the record's line in its file, from 1; 0 for a record that was not read from one.
	Line int `json:"-"`
	// LeftOut is the number of lines of the same file that are no records.
	LeftOut int `json:"-"`
	// Asked says that [Spec.Selected] has selected the record by --set. Such records were all asked for and are compared, though --set may change one row alone.
	Asked bool `json:"-"`
	// Derived says that an earlier version has recorded as Config what all lines share, of which this one ran with a part.
	Derived bool `json:"-"`
}

// Place names the record for tables that say where their numbers are from: EXPERIMENT:LINE. It is empty for a record that was not read from a file.
func (r Record) Place() string {
	return lo.Ternary(r.Line == 0, "", fmt.Sprintf("%s:%d", r.Experiment, r.Line))
}

// File returns the path of a file that the record names, such as its curve, below the folder out of the records.
func (r Record) File(out, name string) string {
	return filepath.Join(Folder(out, r.Experiment), filepath.FromSlash(name))
}

// Synthetic is the dataset of records of images that the experiment draws itself.
const Synthetic = "synthetic"

// place fills in the dataset, which is empty for an experiment that draws its own images, its kind and the variant of a cell.
func (r *Record) place(dataset string) {
	r.Dataset = cmp.Or(dataset, Synthetic)
	r.Kind = lo.Ternary(r.Dataset == Synthetic, figures.Synthetic, figures.Real)
	parts := strings.Split(strings.TrimPrefix(r.Cell, r.Dataset+"/"), "/")
	path := "/" + strings.Join(parts[:max(len(parts)-1, 0)], "/") + "/"
	r.Variant = strings.Trim(strings.Replace(path, "/"+r.Row+"/", "/", 1), "/")
}

// upgrade fills in the fields that the records of earlier versions lack.
func upgrade(records []Record) {
	for i := range records {
		r := &records[i]
		r.Derived = len(r.Shared) == 0 && (r.Experiment == "ablation" || r.Experiment == "over-dispersion") && strings.Contains("/"+r.Cell, "/line")
		if r.Curve != "" && path.Ext(r.Curve) == "" { // The folder of what has been trained.
			file := lo.Ternary(r.Experiment == "transfer", "heads.safetensors", "model.safetensors")
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
	encoded := lo.Ternary(len(r.Shared) > 0, r.Shared, r.Config)
	if err := json.Unmarshal(encoded, config); err != nil {
		return fmt.Errorf("configuration of record %s, %s: %w", r.Cell, cmp.Or(r.Place(), "of no file"), err)
	}
	return nil
}

// start is what a record's configuration says of the encoder that it begins from or evaluates.
type start struct {
	Init, Weights string // The file that a training starts from, by the name that its experiment has for it.
	Encoder       encoderOf
}

// encoderOf is the encoder that a record evaluates, in the words of its configuration.
type encoderOf struct{ Architecture, Changed, Digest, Run string }

func (s start) fromFile() bool { return s.Init+s.Weights != "" }

// start reads what the configuration has of it.
func (r Record) start() (s start) {
	_ = json.Unmarshal(r.Config, &s) // A field of another type is no file or encoder.
	return s
}

// hashedConfig is the JSON of the part of a configuration that is hashed: the method OmitPaths, if there is one, clears the paths of files, which a hash leaves out.
func hashedConfig(config any) json.RawMessage {
	hashed := reflect.New(reflect.TypeOf(config))
	hashed.Elem().Set(reflect.ValueOf(config))
	if c, ok := hashed.Interface().(interface{ OmitPaths() }); ok {
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

// Quantity is a number of a record, a line of the table of all records.
type Quantity struct {
	Experiment string           `json:"experiment" parquet:"experiment"`
	Profile    Profile          `json:"profile" parquet:"profile"`
	Dataset    string           `json:"dataset" parquet:"dataset"`
	Kind       figures.DataKind `json:"kind" parquet:"kind"` // real or synthetic
	Variant    string           `json:"variant" parquet:"variant"`
	Row        string           `json:"row" parquet:"row"`
	Column     string           `json:"column" parquet:"column"`
	Seed       int              `json:"seed" parquet:"seed"`
	Quantity   string           `json:"quantity" parquet:"quantity"` // The record's metric, or the name of a further number.
	Unit       string           `json:"unit" parquet:"unit"`         // Empty for further numbers.
	Value      float64          `json:"value" parquet:"value"`
	ConfigHash string           `json:"config_hash" parquet:"config_hash"`
	Encoder    string           `json:"encoder" parquet:"encoder"`
	Data       string           `json:"data" parquet:"data"`
	Finished   time.Time        `json:"finished" parquet:"finished,timestamp(millisecond)"`
}

// Quantities lists the value and the further numbers of each record.
func Quantities(records []Record) (all []Quantity) {
	for _, r := range records {
		one := Quantity{r.Experiment, r.Profile, r.Dataset, r.Kind, r.Variant, r.Row, r.Column, r.Seed, r.Metric, r.Unit, r.Value, r.ConfigHash, r.Encoder, r.Data, r.Finished}
		all = append(all, one)
		for _, name := range slices.Sorted(maps.Keys(r.Details)) {
			one.Quantity, one.Unit, one.Value = name, "", r.Details[name]
			all = append(all, one)
		}
	}
	return all
}

// QuantityNames lists the columns of the table, which are the names in JSON.
func QuantityNames() []string {
	return lo.Map(reflect.VisibleFields(reflect.TypeFor[Quantity]()), func(field reflect.StructField, _ int) string { return field.Tag.Get("json") })
}

// Texts are the fields as text, in the order of [QuantityNames].
func (q Quantity) Texts() (texts []string) {
	for _, value := range reflect.ValueOf(q).Fields() {
		text := fmt.Sprint(value)
		if at, ok := value.Interface().(time.Time); ok {
			text = at.Format(time.RFC3339)
		}
		texts = append(texts, text)
	}
	return texts
}

// IsSpeed reports whether a detail of a record is a rate or a size of memory, which says nothing about what was learnt.
func IsSpeed(detail string) bool {
	return strings.HasSuffix(detail, "_per_second") || strings.HasSuffix(detail, "/s") || detail == "peak_memory_gb"
}
