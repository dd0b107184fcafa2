package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/internal/steps"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/backend/xlacache"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

// benchmark is what "semcon bench" says of a machine.
type benchmark struct {
	Engine   string            `json:"engine"`
	Device   string            `json:"device"`
	Devices  int               `json:"devices"`
	Profile  study.Profile     `json:"profile"`
	Versions map[string]string `json:"versions"`
	Peak     float64           `json:"peak_flop_per_second"` // Of a device, dense products; 0 if unknown.
	PeakFrom string            `json:"peak_from"`
	Steps    []benchStep       `json:"steps"`
	Full     []benchProfile    `json:"full_profiles"`
}

// benchStep is what it says of a training step. Compiling counts from an empty cache, with the building of the graph.
type benchStep struct {
	Step  string `json:"step"`
	Batch int    `json:"batch"`
	BF16  bool   `json:"bf16"`
	study.Efficiency
	FLOPPerStep    float64 `json:"flop_per_step,omitzero"` // Of the products in the graph.
	FLOPPerSecond  float64 `json:"flop_per_second,omitzero"`
	DeviceMemory   int64   `json:"peak_device_memory_bytes,omitzero"` // Of the process so far.
	CachedSeconds  float64 `json:"compile_seconds_cached,omitzero"`
	InputPerSecond float64 `json:"input_images_per_second"`
	H200           float64 `json:"images_per_second_of_h200_at_most,omitzero"`
	H100           float64 `json:"images_per_second_of_h100_at_most,omitzero"`
}

// benchProfile is how long the trainings of an experiment's full profile would take, by their FLOP and the rate of a measured step. Evaluations come on top.
type benchProfile struct {
	Experiment string  `json:"experiment"`
	Of         string  `json:"of,omitzero"` // " per encoder and dataset", " or less", or nothing.
	FLOP       float64 `json:"flop,omitzero"`
	Seconds    float64 `json:"seconds,omitzero"` // 0 for experiments that train nothing that was measured.
	Cost       string  `json:"cost"`             // As "semcon list" has it.
}

// benchSteps are the names of steps on the command line, which are names of experiments, and in package steps.
var benchSteps = [][2]string{{"pretrain", steps.Pretrain}, {"fine-tune", finetune.UPerNet}, {"detection", steps.Detection}}

// benchTime bounds the time of the steps of a kind.
const benchTime = 40 * time.Second

func benchVerb(c *cobra.Command, flags flagTexts) {
	var o steps.Options
	var f struct {
		Step, Format          string
		Batch, Devices, Steps int
		BF16                  bool
	}
	flags.bind(c, &o, &f)
	c.Run = func(c *cobra.Command, _ []string) {
		requireFolder("data", o.Data)
		work, remove := benchFolder()
		defer remove()
		if xlacache.Dir() != "" {
			try.E(os.Setenv(xlacache.EnvVar, filepath.Join(work, "xla"))) // An empty cache.
		}
		b := openDevices(f.Devices, 0)
		announceEngine(os.Stderr, f.Devices)
		m := benchmark{Engine: backend.Engine(), Device: cmp.Or(study.GPUModel(), fmt.Sprintf("%d %s cores", runtime.NumCPU(), runtime.GOARCH)), Devices: f.Devices, Profile: o.Profile, Versions: backend.Versions()}
		m.Peak, m.PeakFrom = densePeak(b, f.BF16)
		for _, names := range benchSteps {
			if f.Step != "all" && f.Step != names[0] {
				continue
			}
			o.Folder, o.Set = filepath.Join(work, "images"), []string{fmt.Sprintf("bf16=%t", f.BF16)}
			if f.Batch > 0 {
				parts := map[bool]string{true: "accumulate=1", false: "parts=1"}[names[1] == steps.Pretrain]
				o.Set = append(o.Set, fmt.Sprintf("batch=%d", f.Batch), parts)
			}
			s := try.E1(steps.Of(names[1], o))
			measured := measureStep(c.Context(), b, names[0], s, f.Steps)
			if m.Peak > 0 {
				measured.Utilisation = measured.ImagesPerSecond * measured.FLOPPerImage / m.Peak / float64(f.Devices)
			}
			if o.Profile == study.Full && f.Devices == 1 && backend.TF32() {
				measured.H200, measured.H100 = steps.Roofs(names[1], s)
			}
			m.Steps = append(m.Steps, measured)
		}
		m.Full = fullProfiles(work, m.Steps)
		printAs(f.Format, m.text(), m)
	}
}

// benchFolder makes a temporary folder, and removes what processes that were killed more than a minute ago have left.
func benchFolder() (work string, remove func()) {
	others, _ := filepath.Glob(filepath.Join(os.TempDir(), "semcon-bench-*"))
	for _, other := range others {
		if info, err := os.Stat(other); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // Its process may be about to lock it.
		}
		if unlock, free, err := filelock.Try(filepath.Join(other, "lock")); err == nil && free {
			os.RemoveAll(other)
			unlock()
		}
	}
	work = try.E1(os.MkdirTemp("", "semcon-bench-"))
	unlock, _, err := filelock.Try(filepath.Join(work, "lock"))
	try.E(err)
	return work, func() { os.RemoveAll(work); unlock() }
}

// measureStep compiles a step, takes so many steps after a first one, makes their input alone, and compiles again, from the cache.
func measureStep(ctx context.Context, b compute.Backend, name string, s steps.Step, count int) benchStep {
	bar, m := progress.New(os.Stderr, name, count+1), benchStep{Step: name, Batch: s.Batch, BF16: s.BF16}
	defer bar.Close()
	bar.Phase(progress.Compiling)
	peak := usage.PeakResident(func() {
		t := try.E1(s.New(b))
		defer t.Close()
		try.E(t.Begin(0))
		for i, began := 0, time.Now(); i <= count && (i < 2 || time.Since(began) < benchTime); i++ {
			try.E(t.Take(ctx))
			if bar.Set(i+1, ""); i == 0 {
				bar.Phase(progress.Training)
				began = time.Now()
			}
		}
		used := t.Usage()
		m.Efficiency, m.DeviceMemory = study.EfficiencyOf(used, t.Workload(), study.GPUModel(), backend.Devices(b)), xlacache.DeviceMemory()
		if products := t.Products(); !math.IsNaN(products) {
			m.FLOPPerStep, m.FLOPPerSecond = products, products*float64(used.Steps)/used.Stepping.Seconds()
		}
		bar.Phase("reading")
		began := time.Now()
		parts := try.E1(t.Read(ctx, count*s.Batch/s.Images, benchTime/4))
		m.InputPerSecond = float64(parts*s.Images) / time.Since(began).Seconds()
	})
	if m.PeakMemory = cmp.Or(peak, m.PeakMemory); xlacache.Dir() != "" && !backend.IsGo() {
		bar.Phase("compiling again")
		t := try.E1(s.New(b))
		m.CachedSeconds = t.Usage().Compiling.Seconds()
		t.Close()
	}
	return m
}

// gpuPeak is the dense peak of a GPU in FLOP/s by its data sheet, 0 if it is unknown, such as the peak of float32 without TF32.
func gpuPeak(gpu string, bfloat16 bool) (flops float64, from string) {
	flops, _ = study.PeakOf(gpu, bfloat16)
	if flops == 0 || !bfloat16 && !backend.TF32() {
		return 0, "unknown"
	}
	return flops, "data sheet, " + map[bool]string{true: "bfloat16", false: "TF32"}[bfloat16]
}

// densePeak is the dense peak of a device in FLOP/s: [gpuPeak] for a GPU, and the rate of large products for processors.
func densePeak(b compute.Backend, bfloat16 bool) (flops float64, from string) {
	if gpu := study.GPUModel(); gpu != "" {
		return gpuPeak(gpu, bfloat16)
	}
	side, dtype := lo.Ternary(backend.IsGo(), 256, 1024), lo.Ternary(bfloat16, dtypes.BFloat16, dtypes.Float32)
	const repeats = 8
	products := graph.MustNewExec(b, func(g *graph.Graph) *graph.Node {
		x := graph.MulScalar(graph.IotaFull(g, shapes.Make(dtype, side, side)), 1e-9)
		for range repeats {
			x = graph.AddScalar(graph.Dot(x, x).Product(), 1e-3)
		}
		return graph.ReduceAllMax(x)
	})
	defer products.Finalize()
	best := time.Hour
	for range 5 { // The first one compiles.
		began := time.Now()
		products.MustCall1().MustFinalizeAll()
		best = min(best, time.Since(began))
	}
	return float64(repeats*2*side*side*side) / best.Seconds(), fmt.Sprintf("measured: products of %d² in %s", side, dtype)
}

// fullProfiles says how long the full profiles would take at the rates of measured steps. work is a folder without records.
func fullProfiles(work string, measured []benchStep) (all []benchProfile) {
	rates := lo.SliceToMap(measured, func(m benchStep) (string, float64) { return m.Step, m.ImagesPerSecond * m.FLOPPerImage })
	const file = "=" + os.DevNull // Full profiles of photographs start from files, which nobody reads here.
	pretrained := map[string][]string{
		"pretrain": {"init" + file}, "ablation": {"init" + file}, "extended-training": {"dino.weights" + file, "ibot.weights" + file, "mugs.weights" + file},
		"over-dispersion": {"init" + file}, "teacher-quality": nil, // On drawn images.
	}
	tuned := map[string][]string{"fine-tune": {finetune.UPerNet, finetune.FPN}, "detection": {steps.Detection}}
	for _, e := range experiments.All() {
		p, rate := benchProfile{Experiment: e.Name, Cost: e.Cost[study.Full]}, rates["pretrain"]
		for _, name := range tuned[e.Name] {
			rate, p.Of = rates[e.Name], " per encoder and dataset"
			p.FLOP += try.E1(steps.Of(name, steps.Options{Profile: study.Full})).FLOPs
		}
		if e.Name == "extended-training" {
			p.Of = " or less" // Its rivals' steps count as the method's.
		}
		starts, pretrains := pretrained[e.Name]
		dataset := map[bool]string{true: "images", false: "synthetic"}[starts != nil]
		cells, err := e.Cells(study.Options{Profile: study.Full, Out: work, Set: starts}, dataset)
		if pretrains { // Others may want data.
			try.E(err)
		}
		p.FLOP += lo.SumBy(cells, func(cell study.CellInfo) float64 { return cell.FLOPs })
		if rate > 0 {
			p.Seconds = p.FLOP / rate
		}
		all = append(all, p)
	}
	return all
}

// text is the benchmark for people: of steps what JSON has, with its names.
func (m benchmark) text() string {
	text := m.Device + lo.Ternary(m.Peak == 0, ": its peak is unknown\n", fmt.Sprintf(": at most %.4g TFLOP/s (%s)\n", m.Peak/1e12, m.PeakFrom))
	for _, s := range m.Steps {
		text += "\n" + s.Step + "\n"
		named, encoded := map[string]any{}, try.E1(json.Marshal(s))
		try.E(json.Unmarshal(encoded, &named))
		for _, name := range slices.Sorted(maps.Keys(named)) {
			said := fmt.Sprint(named[name])
			if x, ok := named[name].(float64); ok {
				said = fmt.Sprintf("%.4g", x)
			}
			text += fmt.Sprintf("  %-36s %s\n", strings.ReplaceAll(name, "_", " "), said)
		}
	}
	text += "\nfull profiles: their trainings at the FLOP/s of these steps, or what \"semcon list\" says\n"
	for _, p := range m.Full {
		if p.Seconds > 0 {
			p.Cost = fmt.Sprintf("%.3g hours%s, %.2g FLOP", p.Seconds/3600, p.Of, p.FLOP)
		}
		text += fmt.Sprintf("  %-17s %s\n", p.Experiment, p.Cost)
	}
	return text
}
