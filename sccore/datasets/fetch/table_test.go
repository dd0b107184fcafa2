package fetch

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
)

// TestTable: what is said of each archive is whole, and package datasets looks for what is fetched.
func TestTable(t *testing.T) {
	for _, d := range Table {
		if found := datasets.Available(t.TempDir(), d.Key); len(found) == 0 || found[0].Fetchable != (d.Steps == "") {
			t.Errorf("%s: package datasets has %v", d.Key, found)
		}
		if (d.Steps == "") == (d.Archives == nil) || d.Steps != "" && !strings.Contains(d.Steps, "DATA/") || d.Bytes() > 0 && len(d.Folders) == 0 {
			t.Errorf("%s: %q, %v", d.Key, d.Steps, d.Folders)
		}
		for _, a := range d.Archives {
			if _, known := kinds[len(a.Digest)]; !known && a.Digest != "" || a.Size == 0 || a.Unpacked < a.Size/2 || len(a.Take) == 0 {
				t.Errorf("%s: %+v", d.Key, a)
			}
			for from, to := range a.Take {
				if !filepath.IsLocal(from) || !filepath.IsLocal(to) {
					t.Errorf("%s: %s goes to %s", d.Key, from, to)
				}
			}
		}
	}
}
