package setup

import (
	"bytes"
	"encoding/json"
	"path/filepath"
)

// KernelName is the name by which notebooks ask for the Go kernel, HeadlessKernelName that of the same kernel for execution without a
// browser.
const (
	KernelName         = "gonb"
	HeadlessKernelName = "gonb-headless"
)

func (in Install) kernelFile(name string) string {
	return in.Dir("venv", "share", "jupyter", "kernels", name, "kernel.json")
}

func (in Install) labSettingsFile() string {
	return in.Dir("venv", "share", "jupyter", "lab", "settings", "overrides.json")
}

// kernelJSON describes the Go kernel to Jupyter. The kernel inherits the shell's environment, GOMLX_BACKEND with it; what stands
// under "env" overrides it.
func (in Install) kernelJSON(m machine, name string) string {
	argv := []string{
		in.Dir("bin", "gonb"), "--kernel", "{connection_file}", "-logtostderr=true",
		"-go_work=" + in.root, // The cells see the packages of this checkout.
	}
	if name == HeadlessKernelName {
		// A compiler's message belongs into the error, where a log shows it. A browser gets a page that names the cell and the line instead.
		argv = append(argv, "-raw_error=true")
	}
	return indented(map[string]any{
		"argv":           argv,
		"display_name":   "Go (gonb)",
		"language":       "go",
		"interrupt_mode": "message",
		"env": map[string]string{
			"PATH":    in.Dir("bin") + ":" + filepath.Join(m.goRoot, "bin") + ":${PATH}",
			"GOFLAGS": goFlags,
			// Before each cell the kernel runs "go get", which would look for newer versions than those of go.mod.
			"GOPROXY":               "off",
			"GOMLX_NO_AUTO_INSTALL": "1",
			"GOPLSCACHE":            in.Dir("gopls"), // What gopls, which completes code, would leave in the home folder.
		},
	})
}

func (in Install) serverSettingsFile() string {
	return in.Dir("jupyter", "config", "jupyter_server_config.json")
}

// serverSettings shows the one kernel that runs the notebooks. The server listens on this machine only and asks
// for a token, so it may run as root, as containers do.
func (in Install) serverSettings() string {
	return indented(map[string]any{
		"ServerApp":         map[string]any{"allow_root": true, "answer_yes": true},
		"KernelSpecManager": map[string]any{"allowed_kernelspecs": []string{KernelName}, "ensure_native_kernel": false},
		// There are no language servers to find, and looking for them leaves files of npm in the home folder.
		"LanguageServerManager": map[string]any{"autodetect": false},
	})
}

// labSettings keeps JupyterLab from asking whether it may fetch news, shows pages of Markdown as pages, and lets completion take its time:
// the first of a kernel reads the packages, which takes longer than the second that JupyterLab waits by itself.
func labSettings() string {
	return indented(map[string]any{
		"@jupyterlab/apputils-extension:notification": map[string]any{"fetchNews": "false", "checkForUpdates": false},
		"@jupyterlab/completer-extension:manager":     map[string]any{"providerTimeout": 60_000},
		"@jupyterlab/docmanager-extension:plugin":     map[string]any{"defaultViewers": map[string]string{"markdown": "Markdown Preview"}},
	})
}

func indented(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		panic(err) // Maps of strings always encode.
	}
	return out.String()
}
