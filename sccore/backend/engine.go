package backend

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomlx/compute"
	"github.com/samber/lo"
)

// Engine describes the engine that [Open] opens and where it was found: "XLA, xla_cpu_pjrt.so in the checkout /src/semcon".
func Engine() string { return engineOf(Config(), os.Getenv(compute.ConfigEnvVar) != "", installs()) }

func engineOf(config string, fromEnv bool, installs []install) string {
	engine, plugin, options := split(config)
	said := strings.ToUpper(engine) + ", " + plugin
	if engine == Go {
		said, options = "pure Go", ""
	}
	if in, found := lo.Find(installs, func(in install) bool { return strings.HasPrefix(plugin, in.folder+string(filepath.Separator)) }); found {
		said = strings.ToUpper(engine) + ", " + filepath.Base(plugin) + " in " + in.owner
	}
	if options != "" {
		said += " with " + options
	}
	if fromEnv {
		said += ", set by " + compute.ConfigEnvVar
	}
	return said
}

// HasGPU reports whether this machine has an NVIDIA GPU, by the files of its driver. Containers and sandboxes have only some of them.
func HasGPU() bool { return gpuBelow("/") }

func gpuBelow(root string) bool {
	return isFile(filepath.Join(root, "proc", "driver", "nvidia", "version")) || len(glob(root, "dev/nvidia[0-9]*")) > 0
}

// UnusedGPU says, in one line, that this machine has an NVIDIA GPU which [Open] leaves alone though nobody asked for that; it is empty otherwise.
func UnusedGPU() string { return unusedGPU(HasGPU(), Config(), os.Getenv(compute.ConfigEnvVar)) }

func unusedGPU(hasGPU bool, config, asked string) string {
	return lo.Ternary(hasGPU && asked == "" && !strings.Contains(config, "cuda"),
		"this machine has an NVIDIA GPU, and XLA's CUDA plugin is not installed, so that the CPU computes", "")
}

// cudaFlags are XLA's flags for its CUDA plugin. Without the first one XLA merges products of one weight with activations of two sizes, for which it copies
// the activations next to each other and the results apart: a tenth of the memory that a pretraining step moves. The second one
// keeps cuDNN's kernels out of CUDA graphs: versions 0.11 of the plugin cannot record the backward pass of attention ("capturing stream has unjoined work").
const cudaFlags = "--xla_gpu_dot_merger_threshold_mb=0 --xla_gpu_enable_command_buffer=-CUDNN"

// cpuFlags are XLA's flags for its CPU plugin. XNNPACK packs the second factor of a large product once and keeps it as long as its address stays the same. A step that updates
// weights in place, as [Alias] asks for, would compute with old weights.
const cpuFlags = "--xla_cpu_use_xnnpack=false"

// setFlags sets XLA's flags before the plugin of a configuration is loaded, which reads them once. Flags of the user come last and win.
func setFlags(config string) error {
	engine, plugin, options := split(config)
	cuda := strings.Contains(filepath.Base(plugin), "cuda")
	own, flags := lo.Ternary(cuda, cudaFlags, cpuFlags), os.Getenv("XLA_FLAGS")
	if engine != "xla" || !cuda && !strings.Contains(filepath.Base(plugin), "cpu") || strings.Contains(flags, own) {
		return nil
	}
	if cuda && strings.Contains(options, "tf32=false") { // GoMLX's option is for products alone. This one is for NVIDIA's libraries, and so for convolutions.
		if err := os.Setenv("NVIDIA_TF32_OVERRIDE", "0"); err != nil {
			return err
		}
	}
	return os.Setenv("XLA_FLAGS", strings.TrimSpace(own+" "+flags))
}

// checkCUDA returns an error in clear words if a configuration asks for "xla:cuda" and nothing can answer.
func checkCUDA(config string, hasGPU bool) error {
	engine, plugin, _ := split(config)
	switch {
	case engine != "xla" || plugin != "cuda":
		return nil
	case !hasGPU:
		return fmt.Errorf("backend %q needs an NVIDIA GPU, and this machine has none: there is no /dev/nvidia0 and no /proc/driver/nvidia/version", config)
	}
	return fmt.Errorf("backend %q needs XLA's CUDA plugin, which is not installed: \"semcon lab --setup-only\" installs it", config)
}

// GPUModel is the model of this machine's first GPU as its driver names it, such as "NVIDIA H200"; empty if that cannot be told.
var GPUModel = sync.OnceValue(func() string {
	if !HasGPU() {
		return ""
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if names, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name", "--format=csv,noheader").Output(); err == nil {
		first, _, _ := strings.Cut(string(names), "\n")
		return strings.TrimSpace(first)
	}
	return gpuModelBelow("/")
})

// gpuModelBelow reads the model from the driver's files.
func gpuModelBelow(root string) string {
	for _, path := range glob(root, "proc/driver/nvidia/gpus/*/information") {
		for line := range strings.Lines(read(path)) {
			if model, ok := strings.CutPrefix(line, "Model:"); ok {
				return strings.TrimSpace(model)
			}
		}
	}
	return ""
}

// Version is the version of this project. CHANGELOG.md and CITATION.cff have the same.
const Version = "v0.3.0"

// Versions names what a number was computed with: Go, the compute libraries, and the commit of this project, with "-modified" if the binary was built from edited files.
var Versions = sync.OnceValue(func() map[string]string {
	found := map[string]string{"go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, module := range info.Deps {
		switch name := filepath.Base(module.Path); name {
		case "gomlx", "go-xla", "compute":
			found[name] = module.Version
		}
	}
	built := lo.SliceToMap(info.Settings, func(s debug.BuildSetting) (string, string) { return s.Key, s.Value })
	commit, edited := built["vcs.revision"], built["vcs.modified"] == "true"
	if root := CheckoutRoot(); commit == "" { // "go run" records neither.
		changes, err := exec.Command("git", "-C", root, "status", "--porcelain", "--untracked-files=no").Output()
		commit, edited = checkedOut(root), err == nil && len(changes) > 0
	}
	if commit != "" {
		found["semcon"] = commit + lo.Ternary(edited, "-modified", "")
	}
	return found
})

// checkedOut reads the commit that a checkout stands at; empty if it cannot be told.
func checkedOut(root string) string {
	commit, isRef := strings.CutPrefix(read(root, ".git", "HEAD"), "ref: ")
	if !isRef {
		return commit
	}
	packed := regexp.MustCompile(`(?m)^(\w+) ` + regexp.QuoteMeta(commit) + "$").FindStringSubmatch(read(root, ".git", "packed-refs")) // By "git gc".
	return cmp.Or(read(root, ".git", commit), lo.NthOrEmpty(packed, 1))
}

// Memory returns how many bytes of memory the engine may have: what the machine has, or less where a control group says so. It is 0 where that is not known,
// as for a GPU, which refuses by itself what does not fit.
func Memory() (bytes int64) {
	if strings.Contains(Config(), "cuda") {
		return 0
	}
	_, _ = fmt.Sscanf(read("/proc/meminfo"), "MemTotal: %d kB", &bytes) // Other systems have no such file.
	bytes <<= 10
	if limit, err := strconv.ParseInt(read("/sys/fs/cgroup/memory.max"), 10, 64); err == nil {
		return min(limit, bytes)
	}
	return bytes
}

// read returns the content of a file without blanks around it, or nothing if it cannot be read.
func read(path ...string) string {
	content, _ := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(content))
}
