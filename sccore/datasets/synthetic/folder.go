package synthetic

import (
	"bytes"
	"fmt"
	"image/png"
	"path/filepath"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/datasets"
)

// WriteFolder writes images as PNG files into class folders, for what reads folders.
func WriteFolder(dir string, images *datasets.Images) error {
	for i := range images.Len() {
		var encoded bytes.Buffer
		if err := png.Encode(&encoded, images.Image(i)); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(dir, images.Classes[images.Labels[i]], fmt.Sprintf("%04d.png", i)), encoded.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
