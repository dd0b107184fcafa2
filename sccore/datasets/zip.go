package datasets

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxZipRatio bounds the ratio of an archive's claimed content to its size. Zip hardly compresses images.
const maxZipRatio = 100

// ReadZip reads class folders of JPEG and PNG images from a zip archive, as [ReadFolder] reads them from disk. It writes nothing to disk: the
// names in the archive only sort and label the images. The error names the archive and, if there is one, the entry.
func ReadZip(file string, size int, broken Broken) (*Images, error) {
	fail := func(err error) (*Images, error) { return nil, fmt.Errorf("zip %s: %w", file, reason(err)) }
	info, err := os.Stat(file)
	if err != nil {
		return fail(err)
	}
	archive, err := zip.OpenReader(file)
	if err != nil {
		return fail(err)
	}
	defer archive.Close()
	var claimed uint64
	for _, entry := range archive.File {
		claimed += min(entry.UncompressedSize64, 1<<32)       // The bound keeps the sum from wrapping.
		entry.Name = strings.ReplaceAll(entry.Name, `\`, "/") // Some archivers on Windows write backslashes.
	}
	if claimed > maxZipRatio*uint64(info.Size()) {
		return fail(fmt.Errorf("claims %d bytes of content in %d: not an archive of images", claimed, info.Size()))
	}
	im, err := readClasses(&archive.Reader, size, broken, runtime.GOMAXPROCS(0))
	if err != nil {
		return fail(err)
	}
	im.Name = filepath.Base(file)
	im.Identify("zip " + im.Name)
	return im, nil
}
