package datasets

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
)

// Cache keeps images as training reads them, decoded and shrunk to the canvas, in files below a folder. Later epochs and runs, of this process and of others,
// read them from there and get the same pixels. A file has 3 bytes a pixel. It is found by the path, size and time of the image's file, the size of the
// canvas and [JPEGDecoder], so that a changed image is decoded again. It may be deleted at any time.
type Cache struct {
	dir  string
	warn func(line string)
	full atomic.Bool // A file could not be written.
}

// OpenCache makes the folder if it is missing. If a file cannot be written, because the disk is full for instance, warn, which may be nil, is told once, and
// nothing more is kept. The error names the folder.
func OpenCache(dir string, warn func(line string)) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return &Cache{dir: dir, warn: warn}, nil
}

// Cached returns the same images, kept in a cache as [ImageFolder.Read] reads them. A nil cache keeps nothing.
func (p *ImageFolder) Cached(c *Cache) *ImageFolder {
	cached := *p
	cached.cache = c
	return &cached
}

// readCached is [ImageFolder.read] through the cache.
func (p *ImageFolder) readCached(i int, pixels []uint8, size int) (Size, error) {
	info, err := fs.Stat(p.tree, p.files[i])
	if err != nil {
		return p.read(i, pixels, size) // Which says what is wrong.
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d %d %s", p.dir, p.files[i], info.Size(), info.ModTime().UnixNano(), size, JPEGDecoder))
	file := filepath.Join(p.cache.dir, fmt.Sprintf("%x", key[:1]), fmt.Sprintf("%x", key[1:16]))
	if read, ok := readCacheFile(file, pixels, size); ok {
		return read, nil
	}
	read, err := p.read(i, pixels, size)
	if err == nil && !p.cache.full.Load() {
		p.cache.keep(file, cacheFile(pixels, size, read))
	}
	return read, err
}

// keep writes a file in place. A reader that meets half of it sees a wrong checksum.
func (c *Cache) keep(file string, content []byte) {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, content, 0o644)
	}
	if err != nil && c.full.CompareAndSwap(false, true) && c.warn != nil {
		c.warn(fmt.Sprintf("cache %s: nothing more is kept: %v", c.dir, reason(err)))
	}
}

// cacheHeader is the number of bytes before the pixels: CRC-32C of what follows it, height, width.
const cacheHeader = 3 * 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// cacheFile returns the file of an image in the top left corner of a canvas: a header, then its rows.
func cacheFile(pixels []uint8, size int, image Size) []byte {
	content := make([]byte, 4, cacheHeader+3*image.Height*image.Width)
	content = binary.LittleEndian.AppendUint32(content, uint32(image.Height))
	content = binary.LittleEndian.AppendUint32(content, uint32(image.Width))
	for y := range image.Height {
		content = append(content, pixels[3*y*size:][:3*image.Width]...)
	}
	binary.LittleEndian.PutUint32(content, crc32.Checksum(content[4:], castagnoli))
	return content
}

// readCacheFile reads a file of [cacheFile] into a canvas. It is not ok if there is no file, or if the file is not whole.
func readCacheFile(file string, pixels []uint8, size int) (image Size, ok bool) {
	content, err := os.ReadFile(file)
	if err != nil || len(content) < cacheHeader || binary.LittleEndian.Uint32(content) != crc32.Checksum(content[4:], castagnoli) {
		return image, false
	}
	height, width := binary.LittleEndian.Uint32(content[4:]), binary.LittleEndian.Uint32(content[8:])
	if height < 1 || width < 1 || height > uint32(size) || width > uint32(size) || len(content) != cacheHeader+3*int(height)*int(width) {
		return image, false
	}
	image = Size{Height: int(height), Width: int(width)}
	for y, rows := 0, content[cacheHeader:]; y < image.Height; y, rows = y+1, rows[3*image.Width:] {
		clear(pixels[3*y*size+copy(pixels[3*y*size:], rows[:3*image.Width]) : 3*(y+1)*size])
	}
	clear(pixels[3*image.Height*size:])
	return image, true
}
