package backend

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
)

// Engine describes the engine that [Open] opens and where it was found: "XLA, xla_cpu_pjrt.so in the checkout /src/semcon".
func Engine() string { return engineOf(Config(), os.Getenv(compute.ConfigEnvVar) != "", installs()) }

func engineOf(config string, fromEnv bool, installs []install) string {
	if config == Go || strings.HasPrefix(config, Go+":") {
		return "pure Go" + setBy(fromEnv)
	}
	name, rest, _ := strings.Cut(config, ":")
	plugin, options, _ := strings.Cut(rest, ",")
	if options != "" {
		options = " with " + options
	}
	for _, in := range installs {
		if strings.HasPrefix(plugin, in.folder+string(filepath.Separator)) {
			return strings.ToUpper(name) + ", " + filepath.Base(plugin) + " in " + in.owner + options + setBy(fromEnv)
		}
	}
	return strings.ToUpper(name) + ", " + plugin + options + setBy(fromEnv)
}

func setBy(fromEnv bool) string {
	if fromEnv {
		return ", set by " + compute.ConfigEnvVar
	}
	return ""
}

// IsGo reports whether [Open] opens the pure-Go engine, which is fine for tests but slow for training.
func IsGo() bool { config := Config(); return config == Go || strings.HasPrefix(config, Go+":") }
