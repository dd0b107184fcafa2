package backend

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
)

// Engine says in a few words which engine [Open] opens and where it was found: "XLA, xla_cpu_pjrt.so of the checkout /src/semcon".
func Engine() string { return engineOf(Config(), os.Getenv(compute.ConfigEnvVar) != "", installs()) }

func engineOf(config string, named bool, installs []install) string {
	if config == Go || strings.HasPrefix(config, Go+":") {
		return "pure Go" + namedBy(named)
	}
	name, rest, _ := strings.Cut(config, ":")
	plugin, options, _ := strings.Cut(rest, ",")
	if options != "" {
		options = " with " + options
	}
	for _, in := range installs {
		if strings.HasPrefix(plugin, in.folder+string(filepath.Separator)) {
			return strings.ToUpper(name) + ", " + filepath.Base(plugin) + " of " + in.owner + options + namedBy(named)
		}
	}
	return strings.ToUpper(name) + ", " + plugin + options + namedBy(named)
}

func namedBy(named bool) string {
	if named {
		return ", named by " + compute.ConfigEnvVar
	}
	return ""
}

// IsGo tells whether [Open] opens the pure-Go engine, which is good for tests and slow for training.
func IsGo() bool { config := Config(); return config == Go || strings.HasPrefix(config, Go+":") }
