package pretrain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// TestInitIsIdentifiedByItsContent opens the data for two files of one name. Else a run would be recorded, or resumed, as one of the other's weights.
func TestInitIsIdentifiedByItsContent(t *testing.T) {
	open := func(file, ignore string) (recipe.Data, error) {
		config := recipe.ProfileConfig(study.Smoke, false)
		o := study.Options{Profile: study.Smoke, Set: []string{"init=" + file, "ignore=" + ignore}}
		if err := config.Configure(o, &config, false); err != nil {
			t.Fatal(err)
		}
		return recipe.Open(o, config, 0)
	}
	file := filepath.Join(t.TempDir(), "w.pth")
	var identities []string
	for _, name := range []string{"dinov3.pth", "dinov3-plus.pth"} {
		content, err := os.ReadFile(member(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := open(file, "")
		if err != nil {
			t.Fatal(err)
		}
		identities = append(identities, d.Identity())
	}
	if identities[0] == identities[1] {
		t.Errorf("two files are both %q", identities[0])
	}
	if _, err := weights.Digest(filepath.Join(t.TempDir(), "none.pth")); err == nil {
		t.Error("a file that does not exist has a digest")
	}

	t.Run("keys that ignore names are left out", func(t *testing.T) {
		named, metadata, err := safetensors.Read(member("dinov3.timm/model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		named["odd.key"] = named["cls_token"]
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(member("dinov3.timm"))); err != nil { // The config.json says the heads.
			t.Fatal(err)
		}
		file := filepath.Join(dir, "odd.safetensors")
		if err := safetensors.Write(file, named, metadata); err != nil {
			t.Fatal(err)
		}
		if _, err := open(file, ""); err == nil {
			t.Error("a key that is not understood is accepted")
		}
		if _, err := open(file, "odd.*"); err != nil {
			t.Error(err)
		}
	})
}
