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
	for _, test := range []struct {
		args   []string
		status int
	}{
		{[]string{"import", "owner/absent"}, 1},
		{[]string{"show", "x.png", "--weights", "owner/absent"}, 1},
		{[]string{"run", "main", "--set", "weights.mine=owner/absent"}, 2},
	} {
		c := semcon(t, m, test.args...)
		c.Env = append(c.Env, "HF_HOME="+home, "HF_HUB_OFFLINE=1")
		_, stderr, status := outcome(t, c)
		if wantLine(t, stderr, "owner/absent: no such file, and from the Hugging Face Hub: ", "HF_HUB_OFFLINE"); status != test.status {
			t.Errorf("%q: exit status %d, want %d", test.args, status, test.status)
		}
	}
	if out, _, status := outcome(t, semcon(t, m, "import", "--list")); status != 0 || !strings.Contains(out, "facebook/dino-vits16") {
		t.Errorf("exit status %d: %s", status, out)
	}
}
