package weights

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
)

// storageTypes maps PyTorch's names of flat arrays to dtypes.
var storageTypes = map[global]dtypes.DType{
	"torch.FloatStorage": dtypes.Float32, "torch.DoubleStorage": dtypes.Float64, "torch.HalfStorage": dtypes.Float16,
	"torch.BFloat16Storage": dtypes.BFloat16, "torch.LongStorage": dtypes.Int64, "torch.IntStorage": dtypes.Int32,
	"torch.ShortStorage": dtypes.Int16, "torch.CharStorage": dtypes.Int8, "torch.ByteStorage": dtypes.Uint8, "torch.BoolStorage": dtypes.Bool,
}

// maxEntries bounds an array: 16 GiB of float64.
const maxEntries = 1 << 31

// array is a flat array in a file, read on demand.
type array struct {
	dtype dtypes.DType
	count int
	read  func() ([]byte, error)

	views int    // Number of tensors that share it.
	kept  []byte // The content if several tensors share it, so that it is read only once.
}

func (a *array) bytes() ([]byte, error) {
	if a.kept != nil {
		return a.kept, nil
	}
	raw, err := a.read()
	if err == nil && a.views > 1 {
		a.kept = raw
	}
	return raw, err
}

// arrays holds the arrays of a file by key.
type arrays map[string]*array

// named returns the array of a persistent id: ("storage", type, key, device, count), with one more part in legacy files.
func (all arrays) named(id any) (*array, error) {
	parts, _ := id.([]any)
	if len(parts) < 5 || parts[0] != "storage" || (len(parts) > 5 && parts[5] != nil) {
		return nil, errors.New("pickle refers to something that is not an array")
	}
	name, ok1 := parts[1].(global)
	key, ok2 := parts[2].(string)
	count, ok3 := parts[4].(int)
	dtype, ok4 := storageTypes[name]
	if !ok1 || !ok2 || !ok3 || !ok4 || count < 0 || count > maxEntries {
		return nil, errors.New("pickle is damaged: an array has no type or size")
	}
	if all[key] == nil {
		all[key] = &array{dtype: dtype, count: count}
	}
	if a := all[key]; a.dtype != dtype || a.count != count {
		return nil, fmt.Errorf("pickle is damaged: array %.80q has both %d %s and %d %s", key, a.count, a.dtype, count, dtype)
	}
	return all[key], nil
}

// view is a tensor: a shape and strides on an array.
type view struct {
	array   *array
	offset  int
	shape   []int
	strides []int
}

// newView returns a view from the arguments of torch._utils._rebuild_tensor_v2: storage, offset, shape, strides, and two more.
func newView(arguments []any) (*view, error) {
	if len(arguments) < 4 {
		return nil, errors.New("pickle is damaged: a tensor has no shape")
	}
	storage, ok := arguments[0].(*array)
	offset, isInt := arguments[1].(int)
	shape, err1 := integers(arguments[2])
	strides, err2 := integers(arguments[3])
	if !ok || !isInt || err1 != nil || err2 != nil || len(shape) != len(strides) {
		return nil, errors.New("pickle is damaged: a tensor has an invalid shape")
	}
	storage.views++
	v := &view{storage, offset, shape, strides}
	if offset > storage.count {
		return nil, fmt.Errorf("a tensor begins at %d in an array of %d entries", offset, storage.count)
	}
	last, size := offset, 1
	for i, dim := range shape {
		// A tensor of weights has no more entries than its array, so no product below can overflow.
		if dim < 0 || strides[i] < 0 || strides[i] > storage.count || (dim > 0 && size > storage.count/dim) {
			return nil, fmt.Errorf("a tensor of shape %v with strides %v does not fit in an array of %d entries", shape, strides, storage.count)
		}
		size *= dim
		if last += max(dim-1, 0) * strides[i]; last > storage.count {
			break // Before the sum overflows.
		}
	}
	if offset < 0 || (size > 0 && last >= storage.count) {
		return nil, fmt.Errorf("a tensor of shape %v at %d with strides %v does not fit in an array of %d entries", shape, offset, strides, storage.count)
	}
	return v, nil
}

func integers(tuple any) ([]int, error) {
	items, ok := tuple.([]any)
	if !ok || len(items) > 16 {
		return nil, errors.New("not a tuple")
	}
	out := make([]int, len(items))
	for i, item := range items {
		if out[i], ok = item.(int); !ok {
			return nil, errors.New("not an integer")
		}
	}
	return out, nil
}

// Shape implements tensorSource.
func (v *view) Shape() []int { return v.shape }

// Floats implements tensorSource: the entries, row-major.
func (v *view) Floats() ([]float32, error) {
	raw, err := v.array.bytes()
	if err != nil {
		return nil, err
	}
	entry, err := floatsOf(v.array.dtype, raw)
	if err != nil {
		return nil, err
	}
	size := 1
	for _, dim := range v.shape {
		size *= dim
	}
	out := make([]float32, 0, size)
	index := make([]int, len(v.shape))
	for at := v.offset; len(out) < size; {
		out = append(out, entry(at))
		for axis := len(index) - 1; axis >= 0; axis-- {
			index[axis]++
			at += v.strides[axis]
			if index[axis] < v.shape[axis] {
				break
			}
			at -= index[axis] * v.strides[axis]
			index[axis] = 0
		}
	}
	return out, nil
}

// floatsOf returns a function that reads an entry of a flat array of little-endian floating-point numbers.
func floatsOf(dtype dtypes.DType, raw []byte) (func(i int) float32, error) {
	switch dtype {
	case dtypes.Float32:
		return func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])) }, nil
	case dtypes.Float64:
		return func(i int) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))) }, nil
	case dtypes.Float16:
		return func(i int) float32 { return float16.FromBits(binary.LittleEndian.Uint16(raw[2*i:])).Float32() }, nil
	case dtypes.BFloat16:
		return func(i int) float32 { return bfloat16.FromBits(binary.LittleEndian.Uint16(raw[2*i:])).Float32() }, nil
	}
	return nil, fmt.Errorf("holds %s, want floating-point numbers", dtype)
}

// legacyMagic starts the files of PyTorch before 1.6.
var legacyMagic = []byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")

// openTorch reads the objects of a PyTorch file of size bytes. Arrays are read on demand.
func openTorch(r io.ReaderAt, size int64) (any, error) {
	head := make([]byte, len(legacyMagic))
	if n, err := r.ReadAt(head, 0); err != nil && n < 4 {
		return nil, errors.New("neither a PyTorch nor a safetensors file: it is too short")
	}
	switch {
	case bytes.Equal(head, legacyMagic):
		return openLegacy(r, size)
	case string(head[:4]) == "PK\x03\x04":
		return openZip(r, size)
	}
	return nil, errors.New("neither a PyTorch nor a safetensors file")
}

// openZip reads the format of PyTorch 1.6 and later: an uncompressed archive of a pickle and one entry for each array.
func openZip(r io.ReaderAt, size int64) (any, error) {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("damaged or truncated PyTorch archive: %w", err)
	}
	entries, err := stored(archive, size)
	if err != nil {
		return nil, err
	}
	folder := ""
	for name := range entries {
		if path.Base(name) != "data.pkl" {
			continue
		}
		if folder != "" {
			return nil, errors.New("a zip archive, but not of PyTorch: it contains more than one data.pkl")
		}
		folder = strings.TrimSuffix(name, "data.pkl")
	}
	if order := entries[folder+"byteorder"]; order != nil {
		if text, err := content(order); err != nil || string(text) != "little" {
			return nil, errors.New("the archive is not little-endian")
		}
	}
	pickle := entries[folder+"data.pkl"]
	if pickle == nil || pickle.UncompressedSize64 > maxPickle {
		return nil, errors.New("a zip archive, but not of PyTorch: it contains no data.pkl of reasonable size")
	}
	text, err := content(pickle)
	if err != nil {
		return nil, err
	}
	all := arrays{}
	objects, err := unpickle(bufio.NewReader(bytes.NewReader(text)), func(id any) (any, error) { return all.named(id) })
	if err != nil {
		return nil, err
	}
	for key, a := range all {
		a.read = func() ([]byte, error) {
			entry, bytes := entries[folder+"data/"+key], uint64(a.count)*uint64(a.dtype.Size())
			switch {
			case entry == nil:
				return nil, fmt.Errorf("array %.80q is missing in the archive", key)
			case entry.UncompressedSize64 != bytes:
				return nil, fmt.Errorf("array %.80q has %d bytes, want %d", key, entry.UncompressedSize64, bytes)
			}
			return content(entry)
		}
	}
	return objects, nil
}

// stored returns the entries of an archive of size bytes by name. It refuses zip bombs: entries must be uncompressed, as PyTorch writes them,
// and must not overlap.
func stored(archive *zip.Reader, size int64) (map[string]*zip.File, error) {
	type span struct{ begin, end int64 }
	entries, spans := make(map[string]*zip.File, len(archive.File)), make([]span, 0, len(archive.File))
	for _, f := range archive.File {
		if f.Method != zip.Store {
			return nil, fmt.Errorf("entry %.80q is compressed, which PyTorch never does", f.Name)
		}
		begin, err := f.DataOffset()
		if err != nil || begin > size || f.UncompressedSize64 != f.CompressedSize64 || f.UncompressedSize64 > uint64(size-begin) {
			return nil, fmt.Errorf("entry %.80q of %d bytes does not fit in the archive", f.Name, f.UncompressedSize64)
		}
		if entries[f.Name] != nil {
			return nil, fmt.Errorf("entry %.80q is in the archive twice", f.Name)
		}
		entries[f.Name] = f
		spans = append(spans, span{begin, begin + int64(f.UncompressedSize64)})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	for i := 1; i < len(spans); i++ {
		if spans[i].begin < spans[i-1].end {
			return nil, errors.New("entries of the archive overlap")
		}
	}
	return entries, nil
}

// content reads an uncompressed entry of an archive and verifies its checksum.
func content(f *zip.File) ([]byte, error) {
	opened, err := f.Open()
	if err == nil {
		defer opened.Close()
		read := bytes.NewBuffer(make([]byte, 0, f.UncompressedSize64+bytes.MinRead))
		if _, err = read.ReadFrom(opened); err == nil {
			return read.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("entry %.80q: %w", f.Name, err)
}

// openLegacy reads the older format: pickles of a magic number, a version, the machine, the objects and the keys of the arrays, and then the
// arrays.
func openLegacy(r io.ReaderAt, size int64) (any, error) {
	section := &counter{r: io.NewSectionReader(r, 0, size)}
	stream := bufio.NewReader(section)
	none := func(any) (any, error) { return nil, errors.New("pickle is damaged: an array comes too early") }
	for range 3 {
		if _, err := unpickle(stream, none); err != nil {
			return nil, err
		}
	}
	all := arrays{}
	objects, err := unpickle(stream, func(id any) (any, error) { return all.named(id) })
	if err != nil {
		return nil, err
	}
	keys, err := unpickle(stream, none)
	if err != nil {
		return nil, err
	}
	names, ok := keys.(*list)
	if !ok {
		return nil, errors.New("pickle is damaged: it has no list of arrays")
	}
	at := section.read - int64(stream.Buffered())
	for _, name := range names.items {
		key, _ := name.(string)
		a := all[key]
		if a == nil || a.read != nil {
			return nil, errors.New("pickle is damaged: an array is unused or listed twice")
		}
		var count [8]byte
		if _, err := r.ReadAt(count[:], at); err != nil || int(binary.LittleEndian.Uint64(count[:])) != a.count {
			return nil, fmt.Errorf("array %.80q is damaged or truncated", key)
		}
		begin, bytes := at+8, int64(a.count)*int64(a.dtype.Size())
		if bytes > size-begin {
			return nil, fmt.Errorf("array %.80q is truncated", key)
		}
		a.read = func() ([]byte, error) {
			content := make([]byte, bytes)
			_, err := r.ReadAt(content, begin)
			return content, err
		}
		at = begin + bytes
	}
	for key, a := range all {
		if a.read == nil {
			return nil, fmt.Errorf("array %.80q is not in the file", key)
		}
	}
	return objects, nil
}

// counter counts the bytes that have been read.
type counter struct {
	r    io.Reader
	read int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read += int64(n)
	return n, err
}
