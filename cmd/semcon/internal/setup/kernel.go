package setup

import (
	"bytes"
	"encoding/json"
	"path/filepath"
)

// KernelName is the name of the Go kernel in notebooks. HeadlessKernelName is the same kernel for execution without a browser.
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

// kernelJSON describes the Go kernel to Jupyter. The kernel inherits the environment of the shell, including GOMLX_BACKEND; "env" overrides it.
func (in Install) kernelJSON(m machine, name string) string {
	argv := []string{
		in.Dir("bin", "gonb"), "--kernel", "{connection_file}", "-logtostderr=true",
		"-go_work=" + in.root, // The cells see the packages of this checkout.
	}
	if name == HeadlessKernelName {
		// The error contains the compiler's message, for logs. A browser instead gets a page that names the cell and the line.
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
			// The kernel runs "go get" before each cell, which would look for newer versions than those in go.mod.
			"GOPROXY":               "off",
			"GOMLX_NO_AUTO_INSTALL": "1",
			"GOPLSCACHE":            in.Dir("gopls"), // gopls, which completes code, would otherwise write to the home folder.
		},
	})
}

func (in Install) serverSettingsFile() string {
	return in.Dir("jupyter", "config", "jupyter_server_config.json")
}

// serverSettings allows only the kernel of the notebooks. The server listens only on this machine and asks for a token, so it may run as root,
// as in containers.
func (in Install) serverSettings() string {
	return indented(map[string]any{
		"ServerApp":         map[string]any{"allow_root": true, "answer_yes": true},
		"KernelSpecManager": map[string]any{"allowed_kernelspecs": []string{KernelName}, "ensure_native_kernel": false},
		// The search for language servers finds none, and leaves npm files in the home folder.
		"LanguageServerManager": map[string]any{"autodetect": false},
	})
}

// labSettings keeps JupyterLab from asking whether it may fetch news, shows Markdown files rendered, and gives completion enough time: the first
// completion of a kernel reads the packages, which takes longer than JupyterLab's default of a second.
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
