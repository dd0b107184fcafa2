package finetune

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/safetensors"
)

// FuzzDescription reads any text as the description of a segmenter and of a detector beside one small tensor: an error of one line, before anything is made
// that the file does not hold.
func FuzzDescription(f *testing.F) {
	f.Add(`{"segmenter":{"encoder":{"Name":"vit-tiny","Dim":64,"Depth":1000000000,"Heads":2,"PatchSize":8,"Grid":4}}}`)
	f.Add(`{"detector":{"channels":1e9,"classes":-1}}`)
	f.Add(`{"segmenter":{"channels":1000000000,"classes":3}}`)
	f.Add("[")
	f.Fuzz(func(t *testing.T, text string) {
		b := testbackend.Go(t)
		path := filepath.Join(t.TempDir(), "m.safetensors")
		named := map[string]*tensors.Tensor{"w": tensors.FromValue([]float32{1})}
		if err := safetensors.Write(path, named, map[string]string{modelKey + segmenter: text, modelKey + detector: text}); err != nil {
			t.Skip(err) // Metadata must be UTF-8.
		}
		_, ofSegmenter := OpenSegmentationModel(b, path)
		_, ofDetector := OpenDetectionModel(b, path)
		for _, err := range []error{ofSegmenter, ofDetector} {
			if err == nil || strings.ContainsAny(err.Error(), "\n\r") || !strings.Contains(err.Error(), path) || len(err.Error()) > len(path)+700 {
				t.Errorf("error %v", err)
			}
		}
	})
}
