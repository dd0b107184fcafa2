package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWeightsByName: every verb that takes weights takes a folder of the Hub's cache, and a name without the network.
func TestWeightsByName(t *testing.T) {
	m := newMachine(t)
	home := t.TempDir()
	repository := filepath.Join(home, "hub", "models--owner--vit")
	snapshot := filepath.Join(repository, "snapshots", "abc")
	content, err := os.ReadFile(filepath.Join("..", "..", "sccore", "weights", "testdata", "families", "dino.timm", "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, content, snapshot, "model.safetensors")
	write(t, []byte("abc"), repository, "refs", "main")
	for _, name := range []string{"owner/vit", repository, snapshot, filepath.Join(snapshot, "model.safetensors")} {
		c := semcon(t, m, "import", name, "--heads", "2")
		c.Env = append(c.Env, "HF_HOME="+home, "HF_HUB_OFFLINE=1")
		if out, stderr, status := outcome(t, c); status != 0 || !strings.Contains(out, "keys") {
			t.Errorf("%s: exit status %d, %s%s", name, status, out, stderr)
		}
	}
	for _, args := range [][]string{{"import", "owner/absent"}, {"show", "x.png", "--weights", "owner/absent"}, {"run", "main", "--set", "weights.mine=owner/absent"}} {
		c := semcon(t, m, args...)
		c.Env = append(c.Env, "HF_HOME="+home, "HF_HUB_OFFLINE=1")
		_, stderr, status := outcome(t, c)
		if wantLine(t, stderr, "owner/absent: no such file, and from the Hugging Face Hub: ", "HF_HUB_OFFLINE"); status != 1 {
			t.Errorf("%q: exit status %d", args, status)
		}
	}
	if out, _, status := outcome(t, semcon(t, m, "import", "--list")); status != 0 || !strings.Contains(out, "facebook/dino-vits16") {
		t.Errorf("exit status %d: %s", status, out)
	}
}
