package datasets

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxZipRatio is how much larger than itself a zip of images may claim to be. Compressed images hardly get smaller.
const maxZipRatio = 100

// ReadZip reads class folders of JPEG and PNG images from a zip archive, as [ReadFolder] reads them from disk. Nothing is unpacked: the names
// in the archive only sort and label the images. The error names the archive, and the entry where one is at fault.
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
		// Each addend is bounded, so the sum cannot wrap.
		claimed += min(entry.UncompressedSize64, 1<<32)
		entry.Name = strings.ReplaceAll(entry.Name, `\`, "/") // As some archivers on Windows write it.
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
