package study

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/train"
)

// Train completes a training, from its last checkpoint if there is one. It fills in the fields of the loop that depend on the run: the folder, unless
// it is set, the time between checkpoints, and the functions that report progress.
func Train[M any, C comparable, D Data](r *Run[C, D], loop *train.Loop[M]) error {
	loop.Dir = cmp.Or(loop.Dir, r.Dir)
	loop.Every = r.Options().CheckpointEvery
	resumed := loop.Resumed
	loop.Resumed = func(done int) {
		r.Resumed(done)
		if resumed != nil {
			resumed(done)
		}
	}
	loop.Saved = r.saveSeconds
	loop.Damaged = func(file string, err error) {
		r.Warnf("%s resumes from an older checkpoint: %v; the damaged file is kept as %s", r.Cell.Name(), err, file)
	}
	loop.Phase = r.Phase
	if trainer, ok := loop.Trainer.(measured); ok {
		before, gpu, devices := trainer.Usage(), GPUModel(), backend.Devices(r.Backend())
		r.efficiency = func() Efficiency {
			return EfficiencyOf(trainer.Usage().Since(before), trainer.Workload(), gpu, devices)
		}
		defer func() {
			last := r.efficiency()
			r.efficiency = func() Efficiency { return last }
		}()
	}
	defer r.Phase(progress.Measuring)
	return loop.Run(r.Context)
}

// Point is one line of a run's curve file. It holds nothing that depends on the machine's speed, so that a resumed run and an uninterrupted one have the same
// curve, byte for byte.
type Point struct {
	Step         int     `json:"step"`
	Epoch        float64 `json:"epoch"`
	Loss         float64 `json:"loss"` // Mean over the epoch that ends here.
	LearningRate float64 `json:"learning_rate"`
	// Evaluated reports whether the fields below were measured at this step.
	Evaluated     bool    `json:"evaluated"`
	KNN           float64 `json:"knn"`            // Accuracy on the test images, %.
	MIoU          float64 `json:"miou,omitempty"` // Linear probe of patch features, %.
	FeatureStd    float64 `json:"feature_std"`
	EffectiveRank float64 `json:"effective_rank"`
	// Within and Between are the variance of patch features within and between classes, see metrics.ClassSpread; 0 without labels.
	Within  float64 `json:"within,omitempty"`
	Between float64 `json:"between,omitempty"`
}

// ReadCurve reads a curve file, which holds one line of JSON per point. With an error come the points before it.
func ReadCurve[P any](path string) (points []P, err error) {
	defer try.Handle(&err)
	decoder := json.NewDecoder(bytes.NewReader(try.E1(os.ReadFile(path))))
	for decoder.More() {
		var p P
		if err := decoder.Decode(&p); err != nil {
			return points, fmt.Errorf("%s: %.300w", path, err)
		}
		points = append(points, p)
	}
	return points, nil
}

// WriteCurve replaces a curve file.
func WriteCurve[P any](path string, points []P) error {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	for _, p := range points {
		if err := encoder.Encode(p); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return atomicfile.WriteBytes(path, content.Bytes())
}

// Efficiency says how well the last training before a number used the machine, in the call that recorded it. Like [Record].Seconds it differs from run to run.
// Fields that are unknown are left out.
type Efficiency struct {
	ImagesPerSecond float64 `json:"images_per_second,omitzero"`
	FLOPPerImage    float64 `json:"flop_per_image,omitzero"`          // Of a step: products forward and backward, counted from the configuration.
	Utilisation     float64 `json:"model_flop_utilisation,omitzero"`  // The share of the devices' dense peak in bfloat16 or TF32, in [0, 1].
	Device          string  `json:"device,omitzero"`                  // The model of the GPU.
	Devices         int     `json:"devices,omitzero"`                 // The number of devices that shared each batch.
	PeakMemory      int64   `json:"peak_host_memory_bytes,omitzero"`  // Of the process, without a GPU's memory.
	WaitingShare    float64 `json:"waiting_for_input_share,omitzero"` // The share of the steps' time, in [0, 1].
	CompileSeconds  float64 `json:"compile_seconds,omitzero"`
}

// peak is what a GPU does at most by NVIDIA's data sheets: dense products in FLOP/s, without sparsity, and the bytes of its memory a second.
type peak struct {
	model                     string // As the driver names it, or how that begins.
	bfloat16, tf32, bandwidth float64
}

// peaks lists the usual GPUs. Longer names come first.
var peaks = []peak{
	{"NVIDIA H200 NVL", 835.5e12, 417.5e12, 4.8e12}, {"NVIDIA H200", 989.5e12, 494.5e12, 4.8e12},
	{"NVIDIA H100 NVL", 835.5e12, 417.5e12, 3.9e12}, {"NVIDIA H100 PCIe", 756e12, 378e12, 2.0e12}, {"NVIDIA H100", 989.5e12, 494.5e12, 3.35e12},
	{"NVIDIA A100", 312e12, 156e12, 2.039e12}, {"NVIDIA L40S", 362e12, 183e12, 0.864e12},
}

// PeakOf is the dense peak of a GPU in FLOP/s, of bfloat16 or TF32, and the bytes of its memory a second; 0 if it is not in the table.
func PeakOf(model string, bfloat16 bool) (dense, bandwidth float64) {
	for _, p := range peaks {
		if strings.HasPrefix(model, p.model) {
			return lo.Ternary(bfloat16, p.bfloat16, p.tf32), p.bandwidth
		}
	}
	return 0, 0
}

// Roof is a lower bound in seconds on the time of a launch on a GPU of the table, which moves so many bytes and computes so many FLOP of products.
func Roof(model string, bytes, flop float64, bfloat16 bool) float64 {
	dense, bandwidth := PeakOf(model, bfloat16)
	return max(bytes/bandwidth, flop/dense)
}

// measured is a trainer that says where its time went.
type measured interface {
	Usage() train.Usage
	Workload() train.Workload
}

// EfficiencyOf computes the efficiency of a run of steps on so many GPUs of the given model, which is empty for other devices.
func EfficiencyOf(u train.Usage, w train.Workload, gpu string, devices int) Efficiency {
	e := Efficiency{Device: gpu, Devices: devices, PeakMemory: peakMemory(), CompileSeconds: u.Compiling.Seconds()}
	if w.Images > 0 {
		e.FLOPPerImage = w.FLOPs / float64(w.Images)
	}
	if seconds := u.Stepping.Seconds(); seconds > 0 {
		e.ImagesPerSecond, e.WaitingShare = float64(u.Steps*w.Images)/seconds, u.Waiting.Seconds()/seconds
	}
	if most, _ := PeakOf(gpu, w.BFloat16); most > 0 && (w.BFloat16 || backend.TF32()) {
		e.Utilisation = e.ImagesPerSecond * e.FLOPPerImage / most / float64(devices)
	}
	return e
}

// Note is the efficiency for a bar, empty before the rate is known.
func (e Efficiency) Note() string {
	if e.ImagesPerSecond == 0 {
		return ""
	}
	note := fmt.Sprintf(lo.Ternary(e.ImagesPerSecond >= 100, "  %.0f images/s", "  %.3g images/s"), e.ImagesPerSecond)
	if e.Utilisation > 0 {
		note += fmt.Sprintf(", %.0f%% of peak", 100*e.Utilisation)
	}
	if e.WaitingShare >= 0.01 {
		note += fmt.Sprintf(", %.0f%% waiting for input", 100*e.WaitingShare)
	}
	return note
}

// peakMemory is the most memory that the process has held so far, in bytes; 0 where it is unknown.
func peakMemory() int64 {
	var used syscall.Rusage
	if runtime.GOOS != "linux" || syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return used.Maxrss << 10
}

// GPUModel is the model of the GPU that computes, empty if none does.
func GPUModel() string {
	if !strings.Contains(backend.Name(), "cuda") {
		return ""
	}
	return backend.GPUModel()
}
