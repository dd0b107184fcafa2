package backend

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPluginsOfTheCheckoutComeFirst searches two folders and describes where the plugin was found.
func TestPluginsOfTheCheckoutComeFirst(t *testing.T) {
	checkout, cache := filepath.Join(t.TempDir(), "a [new"), t.TempDir() // A folder's name is no pattern.
	installs := []install{{checkout, "the checkout /src"}, {cache, "the user's cache"}}
	if found := pluginsOf(installs); found != nil {
		t.Errorf("nothing is installed, found %q", found)
	}
	for _, test := range []struct{ folder, engine string }{
		{cache, "XLA, xla_cpu_pjrt.so in the user's cache"},
		{checkout, "XLA, xla_cpu_pjrt.so in the checkout /src"},
	} {
		plugin := filepath.Join(test.folder, "venv", "lib", "python3.12", "site-packages", "xla_plugins", "xla_cpu_pjrt", "xla_cpu_pjrt.so")
		if err := os.MkdirAll(filepath.Dir(plugin), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(plugin, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		found := pluginsOf(installs)
		if len(found) != 1 || found[0] != plugin {
			t.Fatalf("found %q, want %s", found, plugin)
		}
		if got := engineOf("xla:"+plugin, false, installs); got != test.engine {
			t.Errorf("%q, want %q", got, test.engine)
		}
		if got, want := engineOf("xla:"+plugin+",tf32=false", true, installs), test.engine+" with tf32=false, set by GOMLX_BACKEND"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCommitOfACheckout reads it where git keeps it.
func TestCommitOfACheckout(t *testing.T) {
	root := t.TempDir()
	for _, step := range []struct{ file, text, want string }{
		{"HEAD", "1a\n", "1a"}, {"HEAD", "ref: refs/heads/main\n", ""}, {"packed-refs", "# pack-refs\n2b refs/heads/main2\n3c refs/heads/main\n", "3c"}, {"refs/heads/main", "4d\n", "4d"},
	} {
		file := filepath.Join(root, ".git", step.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(step.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := checkedOut(root); got != step.want {
			t.Errorf("with %s: %q, want %q", step.file, got, step.want)
		}
	}
}

func TestEngineInWords(t *testing.T) {
	for config, want := range map[string]string{
		"go":                "pure Go, set by GOMLX_BACKEND",
		"go:ops_sequential": "pure Go, set by GOMLX_BACKEND",
		"xla:/opt/x.so":     "XLA, /opt/x.so, set by GOMLX_BACKEND",
		"xla:tpu":           "XLA, tpu, set by GOMLX_BACKEND",
	} {
		if got := engineOf(config, true, nil); got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
	if got := engineOf(Go, false, nil); got != "pure Go" {
		t.Errorf("by default: %q", got)
	}
}

// TestTheUsersCacheIsLookedAtLast also checks that a copy in Go's module cache is not taken for a checkout.
func TestTheUsersCacheIsLookedAtLast(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	copied := filepath.Join(t.TempDir(), "semcon@v1.0.0")
	for _, file := range []string{"go.mod", "cmd/semcon/main.go"} {
		path := filepath.Join(copied, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(copied)
	all := installs()
	dir, err := CacheDir()
	if err != nil || all[len(all)-1].folder != dir {
		t.Errorf("folders %q, the last should be %s, %v", all, dir, err)
	}
	if filepath.Dir(all[0].folder) == copied {
		t.Error("a copy in the module cache is taken for a checkout")
	}
}
