package study

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzReadCurve reads any file as the curve of a training: points, or an error of one line that names the file.
func FuzzReadCurve(f *testing.F) {
	f.Add([]byte(`{"step":1,"loss":2.5}` + "\n"))
	f.Add([]byte(`{"step":1e99}` + "\n{"))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "curve.jsonl")
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		points, err := ReadCurve[struct {
			Step int     `json:"step"`
			Loss float64 `json:"loss"`
		}](path)
		if err != nil && (strings.ContainsAny(err.Error(), "\n\r") || !strings.Contains(err.Error(), path) || len(err.Error()) > len(path)+500) {
			t.Errorf("%q is not one short line that names the file", err)
		}
		if len(points) > len(content) {
			t.Errorf("%d points in %d bytes", len(points), len(content))
		}
	})
}
