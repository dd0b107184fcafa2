package backend

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Versions names what a number was computed with: Go, the compute libraries, and the commit of this project.
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
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			found["semcon"] = setting.Value
		}
	}
	if found["semcon"] == "" {
		if commit := checkedOut(CheckoutRoot()); commit != "" {
			found["semcon"] = commit
		}
	}
	return found
})

// checkedOut reads the commit that a checkout stands at, as "go run" does not record it; empty if it cannot be told.
func checkedOut(root string) string {
	git := filepath.Join(root, ".git")
	head, err := os.ReadFile(filepath.Join(git, "HEAD"))
	if err != nil {
		return ""
	}
	commit, isRef := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: ")
	if !isRef {
		return commit
	}
	hash, err := os.ReadFile(filepath.Join(git, commit))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(hash))
}
