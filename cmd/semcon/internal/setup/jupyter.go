package setup

import (
	"os"
	"slices"
	"strings"
)

// Environ returns the environment for Jupyter's programs: that of the caller, with all of Jupyter's folders inside .semcon, so that the home folder
// stays unchanged.
func (in Install) Environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "JUPYTER_PATH", "JUPYTER_CONFIG_PATH"}, name)
	})
	return append(env,
		"PATH="+in.Dir("venv", "bin")+":"+os.Getenv("PATH"),
		"PYTHONNOUSERSITE=1",
		"JUPYTER_PREFER_ENV_PATH=1",
		"JUPYTER_CONFIG_DIR="+in.Dir("jupyter", "config"),
		"JUPYTER_DATA_DIR="+in.Dir("jupyter", "data"),
		"JUPYTER_RUNTIME_DIR="+in.Dir("jupyter", "runtime"),
		"IPYTHONDIR="+in.Dir("jupyter", "ipython"),
	)
}
