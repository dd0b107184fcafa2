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

	"github.com/dsnet/try"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/samber/lo"
)

// storageTypes maps PyTorch's names of flat arrays to dtypes.
var storageTypes = map[global]dtypes.DType{
	"torch.FloatStorage": dtypes.Float32, "torch.DoubleStorage": dtypes.Float64, "torch.HalfStorage": dtypes.Float16,
	"torch.BFloat16Storage": dtypes.BFloat16, "torch.LongStorage": dtypes.Int64, "torch.IntStorage": dtypes.Int32,
	"torch.ShortStorage": dtypes.Int16, "torch.CharStorage": dtypes.Int8, "torch.ByteStorage": dtypes.Uint8, "torch.BoolStorage": dtypes.Bool,
	"torch.ComplexFloatStorage": dtypes.Complex64, "torch.ComplexDoubleStorage": dtypes.Complex128,
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

func (a *array) size() int64 { return int64(a.count) * int64(a.dtype.Size()) }

// arrays holds the arrays of a file by key.
type arrays map[string]*array

// named returns the array of a persistent id: ("storage", type, key, device, count), with one more part in legacy files. An array of a type that no
// weights have, such as quantised numbers, is an object without content, and so is the source code of a class in a legacy file.
func (all arrays) named(id any) (any, error) {
	parts, _ := id.([]any)
	if len(parts) > 1 && parts[0] == "module" {
		return parts[1], nil
	}
	if len(parts) < 5 || parts[0] != "storage" || (len(parts) > 5 && parts[5] != nil) {
		return nil, errors.New("pickle refers to something that is not an array")
	}
	name, ok1 := parts[1].(global)
	key, ok2 := parts[2].(string)
	count, ok3 := parts[4].(int)
	dtype, ok4 := storageTypes[name]
	if !ok4 && strings.HasPrefix(string(name), "torch.") && strings.HasSuffix(string(name), "Storage") {
		return &object{class: name}, nil
	}
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

// tensor returns the tensor of the arguments of torch._utils._rebuild_tensor_v2: storage, offset, shape, strides, and two more.
func (u *unpickler) tensor(arguments []any) any {
	if len(arguments) < 4 {
		fail("pickle is damaged: a tensor has no shape")
	}
	if foreign, ok := arguments[0].(*object); ok {
		return foreign
	}
	a, ok := arguments[0].(*array)
	offset, isInt := arguments[1].(int)
	shape, isShape := integers(arguments[2])
	strides, areStrides := integers(arguments[3])
	if !ok || !isInt || !isShape || !areStrides || len(shape) != len(strides) {
		fail("pickle is damaged: a tensor has an invalid shape")
	}
	a.views++
	size, last := 1, offset
	for i, dim := range shape {
		if dim < 0 || strides[i] < 0 || dim > 0 && size > maxEntries/dim {
			size = -1
			break
		}
		size *= dim
	}
	for i, dim := range shape { // No product overflows: an axis of several entries has a stride within the array.
		if size > 0 && dim > 1 && last <= a.count {
			last += (dim - 1) * min(strides[i], a.count)
		}
	}
	u.surplus -= max(size-a.count, 0)
	if size < 0 || offset < 0 || offset > a.count || size > 0 && last >= a.count || u.surplus < 0 {
		fail("a tensor of shape %v at %d with strides %v does not fit in an array of %d entries", shape, offset, strides, a.count)
	}
	return source{shape: shape, floats: func() (_ []float32, err error) {
		defer try.Handle(&err)
		raw := a.kept
		if raw == nil {
			raw = try.E1(a.read())
		}
		if a.views > 1 {
			a.kept = raw
		}
		return decodeFloats(a.dtype, raw, offset, shape, strides)
	}}
}

func integers(tuple any) ([]int, bool) {
	items, ok := tuple.([]any)
	out := make([]int, min(len(items), 16))
	for i := range out {
		n, isInt := items[i].(int)
		out[i], ok = n, ok && isInt
	}
	return out, ok && len(items) == len(out)
}

// decodeFloats reads a tensor from a flat array of little-endian floating-point numbers. Without strides it has all of the array.
func decodeFloats(dtype dtypes.DType, raw []byte, offset int, shape, strides []int) ([]float32, error) {
	var entry func(i int) float32
	switch dtype {
	case dtypes.Float32:
		entry = func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])) }
	case dtypes.Float64:
		entry = func(i int) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))) }
	case dtypes.Float16:
		entry = func(i int) float32 { return float16.FromBits(binary.LittleEndian.Uint16(raw[2*i:])).Float32() }
	case dtypes.BFloat16:
		entry = func(i int) float32 { return bfloat16.FromBits(binary.LittleEndian.Uint16(raw[2*i:])).Float32() }
	default:
		return nil, fmt.Errorf("holds %s, want floating-point numbers", dtype)
	}
	if strides == nil {
		shape, strides = []int{len(raw) / dtype.Size()}, []int{1}
	}
	out := make([]float32, 0, lo.Product(shape))
	if cap(out) == 0 {
		return out, nil
	}
	var read func(axis, at int)
	read = func(axis, at int) {
		if axis == len(shape) {
			out = append(out, entry(at))
			return
		}
		for i := range shape[axis] {
			read(axis+1, at+i*strides[axis])
		}
	}
	read(0, offset)
	return out, nil
}

// legacyMagic is the number in the first pickle of a file of PyTorch before 1.6.
const legacyMagic = "\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."

// openZip reads the format of PyTorch 1.6 and later: an uncompressed archive of a pickle and one entry for each array.
func openZip(r io.ReaderAt, size int64) (_ any, err error) {
	defer try.Handle(&err)
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("damaged or truncated PyTorch archive: %w", err)
	}
	if slices.ContainsFunc(archive.File, func(f *zip.File) bool { return path.Base(f.Name) == "constants.pkl" }) {
		return nil, errors.New("is TorchScript, a compiled program: want the weights alone, torch.save(torch.jit.load(FILE).state_dict(), OUT)")
	}
	entries := try.E1(stored(archive, size))
	pickles := lo.FilterKeys(entries, func(name string, _ *zip.File) bool { return path.Base(name) == "data.pkl" })
	if len(pickles) > 1 {
		return nil, errors.New("a zip archive, but not of PyTorch: it contains more than one data.pkl")
	}
	folder := strings.TrimSuffix(lo.FirstOrEmpty(pickles), "data.pkl")
	if order := entries[folder+"byteorder"]; order != nil {
		if text, err := content(order); err != nil || string(text) != "little" {
			return nil, errors.New("the archive is not little-endian")
		}
	}
	pickle := entries[folder+"data.pkl"]
	if pickle == nil || pickle.UncompressedSize64 > maxPickle {
		return nil, errors.New("a zip archive, but not of PyTorch: it contains no data.pkl of reasonable size")
	}
	text := try.E1(content(pickle))
	all := arrays{}
	objects, err := unpickle(bufio.NewReader(bytes.NewReader(text)), all.named)
	for key, a := range all {
		a.read = func() ([]byte, error) {
			entry := entries[folder+"data/"+key]
			switch {
			case entry == nil:
				return nil, fmt.Errorf("array %.80q is missing in the archive", key)
			case entry.UncompressedSize64 != uint64(a.size()):
				return nil, fmt.Errorf("array %.80q has %d bytes, want %d", key, entry.UncompressedSize64, a.size())
			}
			return content(entry)
		}
	}
	return objects, err
}

// stored returns the entries of an archive of size bytes by name. It refuses zip bombs: entries must be uncompressed, as PyTorch writes them,
// and must not overlap.
func stored(archive *zip.Reader, size int64) (map[string]*zip.File, error) {
	entries, spans := make(map[string]*zip.File, len(archive.File)), make([][2]int64, 0, len(archive.File)) // Begin and end.
	for _, f := range archive.File {
		if f.Method != zip.Store {
			return nil, fmt.Errorf("entry %.80q is compressed, which torch.save never does", f.Name)
		}
		begin, err := f.DataOffset()
		if err != nil || begin > size || f.UncompressedSize64 != f.CompressedSize64 || f.UncompressedSize64 > uint64(size-begin) {
			return nil, fmt.Errorf("entry %.80q of %d bytes does not fit in the archive", f.Name, f.UncompressedSize64)
		}
		if entries[f.Name] != nil {
			return nil, fmt.Errorf("entry %.80q is in the archive twice", f.Name)
		}
		entries[f.Name] = f
		spans = append(spans, [2]int64{begin, begin + int64(f.UncompressedSize64)})
	}
	slices.SortFunc(spans, func(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for i := 1; i < len(spans); i++ {
		if spans[i][0] < spans[i-1][1] {
			return nil, errors.New("entries of the archive overlap")
		}
	}
	return entries, nil
}

// content reads an uncompressed entry of an archive and verifies its checksum.
func content(f *zip.File) (_ []byte, err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("entry %.80q: %w", f.Name, err) })
	opened := try.E1(f.Open())
	defer opened.Close()
	read := bytes.NewBuffer(make([]byte, 0, f.UncompressedSize64+bytes.MinRead))
	try.E1(read.ReadFrom(opened))
	return read.Bytes(), nil
}

// openLegacy reads the older format: pickles of a magic number, a version, the machine, the objects and the keys of the arrays, and then the arrays.
func openLegacy(r io.ReaderAt, size int64) (_ any, err error) {
	defer try.Handle(&err)
	section := io.NewSectionReader(r, 0, size)
	stream, all := bufio.NewReader(section), arrays{}
	none := func(any) (any, error) { return nil, errors.New("pickle is damaged: an array comes too early") }
	var objects [5]any
	for i := range objects {
		objects[i] = try.E1(unpickle(stream, lo.Ternary(i == 3, all.named, none)))
	}
	names, ok := objects[4].(*object)
	if !ok || names.class != listName {
		return nil, errors.New("pickle is damaged: it has no list of arrays")
	}
	at := try.E1(section.Seek(0, io.SeekCurrent)) - int64(stream.Buffered())
	for _, name := range names.values {
		key, _ := name.(string)
		a := all[key]
		if a == nil || a.read != nil {
			return nil, errors.New("pickle is damaged: an array is unused or listed twice")
		}
		var count [8]byte
		if _, err := r.ReadAt(count[:], at); err != nil || int(binary.LittleEndian.Uint64(count[:])) != a.count {
			return nil, fmt.Errorf("array %.80q is damaged or truncated", key)
		}
		begin := at + 8
		if a.size() > size-begin {
			return nil, fmt.Errorf("array %.80q is truncated", key)
		}
		a.read = func() ([]byte, error) {
			content := make([]byte, a.size())
			_, err := r.ReadAt(content, begin)
			return content, err
		}
		at = begin + a.size()
	}
	if key, missing := lo.FindKeyBy(all, func(_ string, a *array) bool { return a.read == nil }); missing {
		return nil, fmt.Errorf("array %.80q is not in the file", key)
	}
	return objects[3], nil
}
