package pretrain

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/study"
)

// TestPretrainRefusesWhatWouldChangeNothing gives settings that are recorded but not used, and a file that holds no weights. Nothing is left behind.
func TestPretrainRefusesWhatWouldChangeNothing(t *testing.T) {
	data, junk := t.TempDir(), filepath.Join(t.TempDir(), "junk.pth")
	writeImages(t, data, 10)
	if err := os.WriteFile(junk, []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct{ data, set, want string }{
		{"", "size=64", "size 64: synthetic images are encoded at their own size"},
		{"", "images=5", "images 5 is below the batch size or the number of neighbours; --set images=8 fits"},
		{data, "images=5", "images 5: only synthetic images have a number"},
		{"", "init=" + junk, "--set init=" + junk + ": " + junk + ": neither"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		err := Study.Run(t.Context(), nil, study.Options{Profile: study.Smoke, Data: one.data, Out: out, Set: []string{one.set}})
		if wrong := (study.BadOption{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), one.want) {
			t.Errorf("--set %s: %v, want %q", one.set, err, one.want)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("--set %s leaves a folder", one.set)
		}
	}
}
