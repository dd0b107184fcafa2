package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
)

// zipped returns an archive of entries, given as alternating names and contents.
func zipped(t testing.TB, method uint16, entries ...string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for i := 0; i < len(entries); i += 2 {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: entries[i], Method: method})
		if err == nil {
			_, err = entry.Write([]byte(entries[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// archive returns a PyTorch file of one pickle.
func archive(t testing.TB, pickle string, method uint16) []byte {
	return zipped(t, method, "archive/data.pkl", pickle)
}

// claiming returns an archive whose one entry has four bytes but claims more than a gigabyte.
func claiming(t *testing.T) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	entry, err := w.CreateRaw(&zip.FileHeader{Name: "archive/data.pkl", CRC32: crc32.ChecksumIEEE([]byte("}...")), CompressedSize64: 5 << 30, UncompressedSize64: 5 << 30})
	if err == nil {
		_, err = entry.Write([]byte("}..."))
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// overlapping returns an archive of two entries in the same place.
func overlapping(t *testing.T) []byte {
	t.Helper()
	content := zipped(t, zip.Store, "archive/data.pkl", "}.", "archive/data/000", "}.")
	record := []byte("PK\x01\x02")
	first := bytes.Index(content, record)
	second := first + 1 + bytes.Index(content[first+1:], record)
	copy(content[second+42:second+46], content[first+42:first+46]) // Where the entry begins.
	return content
}

// text returns the opcodes that push a string.
func text(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// integer returns the opcodes that push a number.
func integer(n int) string {
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func tuple(numbers ...int) string {
	opcodes := "("
	for _, n := range numbers {
		opcodes += integer(n)
	}
	return opcodes + "t"
}

// tensor returns a pickle of a dictionary with one tensor, "cls_token", on an array of the given length.
func tensor(count, offset int, shape, strides string) string {
	storage := "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + integer(count) + "tQ"
	opcodes := "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(offset) + shape + strides + "\x89ccollections\nOrderedDict\n)RtR"
	return "\x80\x02}" + text("cls_token") + opcodes + "s."
}

// pickled returns a PyTorch file of such a tensor, whose array actually has four numbers.
func pickled(t *testing.T, count, offset int, shape, strides string) []byte {
	t.Helper()
	return zipped(t, zip.Store, "archive/data.pkl", tensor(count, offset, shape, strides), "archive/data/0", strings.Repeat("\x00", 16))
}

// shared returns a pickle of nested dictionaries that has few objects but an exponential number of names.
func shared() string {
	pickle := "}" + text("x") + "Ns"
	for level := range 6 {
		pickle += fmt.Sprintf("q%c0}(", level)
		for i := range 60 {
			pickle += text(fmt.Sprint(i)) + fmt.Sprintf("h%c", level)
		}
		pickle += "u"
	}
	return pickle + "."
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// header returns the header of a safetensors file of one tensor.
func header(name, dtype, shape, offsets string) string {
	return fmt.Sprintf(`{%q:{"dtype":%q,"shape":%s,"data_offsets":%s}}`, name, dtype, shape, offsets)
}

// wantRefusal writes content to a file and checks that reading it returns a one-line error that names the file and contains part, with little
// memory.
func wantRefusal(t *testing.T, file string, content []byte, part string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	var err error
	if taken := allocated(func() { _, err = ReadViT(path, tiny, "") }); taken > modest(len(content)) {
		t.Errorf("%d bytes took %d of memory", len(content), taken)
	}
	if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), part) || strings.ContainsAny(err.Error(), "\n\x1b") ||
		len(err.Error()) > 320+len(path) {
		t.Errorf("said %.2000v, want one line with %q", err, part)
	}
}

func TestHostilePicklesAreOneLine(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	touch := text("touch " + mark)
	for name, c := range map[string]struct{ pickle, part string }{
		"runs a command":        {"\x80\x02cos\nsystem\n(" + touch + "tR.", `"os.system"`},
		"of another module":     {"\x80\x02cposix\nsystem\n(" + touch + "tR.", `"posix.system"`},
		"by a name on a stack":  {"\x80\x04\x8c\x02os\x8c\x06system\x93" + touch + "\x85R.", `"os.system"`},
		"by an instance":        {"(" + touch + "ios\nsystem\n.", "opcode 0x69"},
		"by an object":          {"(cos\nsystem\n" + touch + "o.", `"os.system"`},
		"by a harmless object":  {"(ccollections\nOrderedDict\n" + touch + "o.", "opcode 0x6f"},
		"by a new object":       {"\x80\x02cos\nsystem\n(" + touch + "t\x81.", `"os.system"`},
		"with keywords":         {"\x80\x04cos\nsystem\n" + touch + "\x85}\x92.", `"os.system"`},
		"by an extension":       {"\x80\x02\x82\x01.", "opcode 0x82"},
		"by a state":            {"\x80\x02cargparse\nNamespace\n)\x81}" + text("a") + "cos\nsystem\nsb.", `"os.system"`},
		"evaluates":             {"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", `"builtins.eval"`},
		"attribute":             {"\x80\x02c__builtin__\ngetattr\n(cposix\nsystem\ntR.", `"posix.system"`},
		"dotted name":           {"\x80\x04\x8c\x05torch\x8c\x0fos.system\nhello\x93" + touch + "\x85R.", `holds one "torch.os.system\nhello"`},
		"name of megabytes":     {"\x80\x02c" + strings.Repeat("o", 1<<20) + "\nsystem\n)R.", "holds one \"ooo"},
		"name of no text":       {"\x80\x04K\x01K\x02\x93.", "not a string"},
		"arguments of no tuple": {"ccollections\nOrderedDict\nK\x01R.", "not a tuple"},
		"array by a number":     {"K\x01Q.", "not an array"},
		"array by a text":       {text("storage") + "Q.", "not an array"},
		"array by a line":       {"Pstorage\n.", "opcode 0x50"},
		"array of no type":      {"(" + text("storage") + "NNNNtQ.", "has no type or size"},
		"array of no module":    {"(NNNNNtQ.", "not an array"},
		"array of a function":   {"(" + text("storage") + "ccollections\nOrderedDict\n" + text("0") + text("cpu") + "K\x04tQ.", "has no type or size"},
		"dictionaries":          {"}q\x00" + text("a") + "h\x00s.", "no tensors"},
		"shared dictionaries":   {shared(), "too many"},
		"names of names":        {"}" + text(strings.Repeat("a", 200)) + "}" + text(strings.Repeat("b", 200)) + "}ss.", "there are no tensors in it"},
		"terminal's commands":   {"}" + text("\x1b[2J\n") + "}s.", "there are no tensors in it"},
		"no stack":              {"R.", "damaged"},
		"no end":                {"NNNN", "truncated"},
		"no mark":               {"NNNNt.", "no mark"},
		"long text":             {"X\xff\xff\xff\x7f.", "32 MiB"},
		"long number":           {"\x8a\xff.", "truncated"},
		"no memo":               {"h\x07.", "does not exist"},
		"fills a number":        {"K\x01(K\x02u.", "something other than a list"},
		"key without a value":   {"}(K\x02u.", "has no value"},
		"opcodes":               {strings.Repeat("]", 3<<20), "opcodes"},
		"lists in lists":        {strings.Repeat("]", 1<<18) + strings.Repeat("a", 1<<18-1) + ".", "no vision transformer"},
		"no dictionary":         {"K\x01.", "no vision transformer"},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, "a.pth", archive(t, c.pickle, zip.Store), c.part) })
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a pickle ran a command")
	}
}

func TestHostileTensorsAreOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		content []byte
		part    string
	}{
		"huge array":        {pickled(t, 1<<31, 0, tuple(1, 1, 16), tuple(1, 1, 1)), "array \"0\" has 16 bytes, want 8589934592"},
		"impossible array":  {pickled(t, 1<<40, 0, tuple(4), tuple(1)), "has no type or size"},
		"negative array":    {pickled(t, -4, 0, tuple(4), tuple(1)), "has no type or size"},
		"another shape":     {pickled(t, 5, 0, tuple(1, 1, 5), tuple(5, 5, 1)), "has shape [1 1 5]"},
		"negative shape":    {pickled(t, 4, 0, tuple(-1), tuple(1)), "does not fit"},
		"negative stride":   {pickled(t, 4, 3, tuple(4), tuple(-1)), "does not fit"},
		"negative offset":   {pickled(t, 4, -1, tuple(4), tuple(1)), "does not fit"},
		"offset beyond":     {pickled(t, 4, 5, tuple(0), tuple(1)), "at 5 with strides"},
		"largest offset":    {pickled(t, 4, math.MaxInt, tuple(4), tuple(1)), "does not fit"},
		"repeated entry":    {pickled(t, 4, 0, tuple(1<<21), tuple(0)), "does not fit"},
		"end beyond":        {pickled(t, 4, 1, tuple(4), tuple(1)), "does not fit"},
		"shape overflows":   {pickled(t, 4, 0, tuple(1<<32, 1<<32, 1), tuple(0, 0, 0)), "does not fit"},
		"strides overflow":  {pickled(t, 4, 0, tuple(2, 2), tuple(math.MaxInt, math.MaxInt)), "does not fit"},
		"axes":              {pickled(t, 4, 0, tuple(make([]int, 40)...), tuple(make([]int, 40)...)), "invalid shape"},
		"shape of texts":    {pickled(t, 4, 0, "("+text("a")+"t", tuple(1)), "invalid shape"},
		"shape but strides": {pickled(t, 4, 0, tuple(4), tuple()), "invalid shape"},
		"short array":       {pickled(t, 16, 0, tuple(1, 1, 16), tuple(16, 16, 1)), `array "0" has 16 bytes, want 64`},
		"not an array":      {archive(t, tensor(16, 0, tuple(1, 1, 16), tuple(16, 16, 1)), zip.Store), `array "0" is missing`},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, "a.pth", c.content, c.part) })
	}
}

func TestHostileArchivesAreOneLine(t *testing.T) {
	good := readFile(t, "tiny-half.pth")
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 0x10 // In an array.
	for name, c := range map[string]struct {
		content []byte
		part    string
	}{
		"zip bomb":            {archive(t, strings.Repeat("N", 1<<24), zip.Deflate), "compressed"},
		"claims of gigabytes": {claiming(t), "does not fit in the archive"},
		"overlapping entries": {overlapping(t), "overlap"},
		"doubled entry":       {zipped(t, zip.Store, "archive/data.pkl", "}.", "archive/data.pkl", "}."), "twice"},
		"two pickles":         {zipped(t, zip.Store, "a/data.pkl", "}.", "b/data.pkl", "}."), "more than one data.pkl"},
		"no pickle":           {zipped(t, zip.Store, "readme", "hello"), "no data.pkl"},
		"big-endian":          {zipped(t, zip.Store, "a/data.pkl", "}.", "a/byteorder", "big"), "little-endian"},
		"flipped bit":         {flipped, "checksum"},
		"other architecture":  {readFile(t, "convolution.pth"), "contains no vision transformer: none of its 2 keys ends with cls_token (bias, weight); CLIP, SigLIP and others without this key are not read"},
		"not a number":        {readFile(t, "layouts/diverged.pth"), "key teacher.backbone.cls_token: has shape"},
		"empty":               {nil, "too short"},
		"text":                {[]byte("not found, sorry"), "neither a PyTorch"},
		"web page":            {[]byte("\n<!DOCTYPE html>\n<html>not found</html>"), "is a web page"},
		"Git LFS pointer":     {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 88283115\n"), "is a Git LFS pointer"},
		"bare pickle":         {[]byte("\x80\x04}."), "is a pickle, but not of torch.save"},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, "a.pth", c.content, c.part) })
	}
	if _, err := ReadViT("testdata/layouts/diverged.pth", small, ""); err == nil ||
		err.Error() != "testdata/layouts/diverged.pth: key teacher.backbone.norm.bias: entry 3 is -Inf" {
		t.Errorf("of weights that diverged: %v", err)
	}
}

func TestHostileSafetensorsAreOneLine(t *testing.T) {
	_, store := readTiny(t, "testdata/tiny.safetensors", "")
	exported := func(name string, values ...float32) []byte {
		path := filepath.Join(t.TempDir(), "exported.safetensors")
		if err := Export(path, Timm, store, "/", tiny, nil, nil); err != nil {
			t.Fatal(err)
		}
		named, metadata, err := safetensors.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		named[name] = tensors.FromValue(values) // Export would refuse it.
		if err := safetensors.Write(path, named, metadata); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	last := func(value float32) []float32 { return append(make([]float32, 15), value) }
	two := `{"a":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]},"b":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}}`
	resnet := `{"conv1.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"layer1.0.conv1.weight":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`
	for name, c := range map[string]struct {
		content []byte
		part    string
	}{
		"not a number":           {exported("norm.bias", last(float32(math.NaN()))...), "key norm.bias: entry 15 is NaN"},
		"infinite":               {exported("norm.bias", last(float32(math.Inf(1)))...), "key norm.bias: entry 15 is +Inf"},
		"head of no numbers":     {exported("head.b", float32(math.NaN())), "key head.b: entry 0 is NaN"},
		"residual network":       {file(resnet, 8), "contains no vision transformer: none of its 2 keys ends with cls_token (conv1.weight, layer1.0.conv1.weight)"},
		"header beyond the file": {append([]byte{255, 255, 0, 0, 0, 0, 0, 0}, "{}"...), "the file ends too early: it has 10 bytes, and its header alone 65535"},
		"endless header":         {append(binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "{}"...), "header of"},
		"overlap":                {file(fmt.Sprintf(two, 0, 4, 0, 4), 4), `"b": has bytes 0 to 4`},
		"partial overlap":        {file(fmt.Sprintf(two, 0, 4, 2, 6), 6), `"b": has bytes 2 to 6`},
		"gap":                    {file(fmt.Sprintf(two, 0, 4, 8, 12), 12), `"b": has bytes 8 to 12`},
		"rest":                   {file(fmt.Sprintf(two, 0, 4, 4, 8), 12), "have 8 bytes, but the file holds 12"},
		"end beyond":             {file(fmt.Sprintf(two, 0, 4, 4, 8), 6), `"b": has bytes 4 to 8 of 6: the file ends too early`},
		"no header":              {append([]byte{255, 255, 0, 0, 0, 0, 0, 0}, "[]"...), "not a safetensors file: header of 65535 bytes in a file of 10"},
		"no UTF-8":               {file(strings.ReplaceAll(header("aX", "F32", "[1]", "[0,4]"), "X", "\xff"), 4), "invalid UTF-8"},
		"largest end":            {file(header("a", "F32", "[1]", "[0,9223372036854775807]"), 4), "9223372036854775807 of 4"},
		"impossible end":         {file(header("a", "F32", "[1]", "[0,9223372036854775808]"), 4), "number"},
		"negative begin":         {file(header("a", "F32", "[1]", "[-4,0]"), 4), "bytes -4 to 0"},
		"doubled key":            {file(strings.ReplaceAll(fmt.Sprintf(two, 0, 4, 4, 8), `"b"`, `"a"`), 8), `duplicate object member name "a"`},
		"negative shape":         {file(header("cls_token", "F32", "[-1]", "[0,4]"), 4), "shape [-1]"},
		"overflowing shape":      {file(header("cls_token", "F32", "[4294967296,4294967296,4294967296]", "[0,4]"), 4), "impossible"},
		"huge shape":             {file(header("cls_token", "F32", "[1,1,9223372036854775807]", "[0,4]"), 4), "impossible"},
		"axes":                   {file(header("cls_token", "F32", "["+strings.Repeat("1,", 1<<16)+"1]", "[0,4]"), 4), "longer than 64 KiB"},
		"17 axes":                {file(header("cls_token", "F32", "["+strings.Repeat("1,", 16)+"1]", "[0,4]"), 4), "more than 16 numbers, an impossible shape"},
		"unknown type":           {file(header("cls_token", "F7", "[1,1,16]", "[0,64]"), 64), `unknown type "F7"`},
		"integers":               {file(header("cls_token", "I32", "[1,1,16]", "[0,64]"), 64), "holds Int32"},
		"type of megabytes":      {file(header("cls_token", strings.Repeat("F", 1<<20), "[1,1,16]", "[0,64]"), 64), "longer than 64 KiB"},
		"name of megabytes":      {file(header(strings.Repeat("a", 1<<20), "F32", "[1]", "[0,4]"), 4), "longer than 64 KiB"},
		"name of 300 bytes":      {file(header(strings.Repeat("a", 300), "F32", "[1]", "[0,4]"), 4), "not the name of a tensor"},
		"terminal's commands":    {file(`{"\u001b[2J":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), `"\x1b[2J"`},
		"a line's end":           {file("{\"a\\nb\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4), `"a\nb"`},
		"number of megabytes":    {file(`{"a":`+strings.Repeat("9", 1<<20)+"}", 0), "number"},
		"lists in lists":         {file(`{"a":`+strings.Repeat("[", 1<<20), 0), "exceeded max depth"},
		"two headers":            {file(`{}{}`, 0), "after top-level value"},
		"a list":                 {file(`[]`, 0), "unmarshal JSON array into"},
		"metadata of numbers":    {file(`{"__metadata__":{"a":1}}`, 0), "number"},
		"doubled metadata":       {file(`{"__metadata__":{},"__metadata__":{}}`, 0), `duplicate object member name "__metadata__"`},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, "a.safetensors", c.content, c.part) })
	}
}

// TestCutFilesAreOneLine truncates valid files at every sixteenth of their length.
func TestCutFilesAreOneLine(t *testing.T) {
	for _, name := range []string{"tiny-dino.pth", "tiny-legacy.pth", "tiny-half.pth", "layouts/leopart.ckpt", "tiny.safetensors"} {
		content := readFile(t, name)
		for sixteenth := range 16 {
			wantRefusal(t, filepath.Base(name), content[:len(content)*sixteenth/16], "")
		}
		wantRefusal(t, filepath.Base(name), content[:len(content)-1], "")
	}
}

// TestOtherTransformerIsOneLine reads a full-size transformer of another architecture and checks that little of it is read.
func TestOtherTransformerIsOneLine(t *testing.T) {
	base, err := encoder.ViTByName("vit-b16")
	if err != nil {
		t.Fatal(err)
	}
	entries, end := map[string]any{}, int64(0)
	for _, w := range base.Weights() {
		size := 4 * int64(w.Size())
		entries[strings.ReplaceAll(w.Path, "/", ".")] = map[string]any{"dtype": "F32", "shape": torchShape(w.Shape), "data_offsets": []int64{end, end + size}}
		end += size
	}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "base.safetensors")
	content := file(string(text), 0)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(content))+end); err != nil { // Zeros that take no space.
		t.Fatal(err)
	}
	wanted, err := encoder.ViTByName("vit-s16")
	if err != nil {
		t.Fatal(err)
	}
	if taken := allocated(func() { _, err = ReadViT(path, wanted, "") }); taken > modest(len(content)) {
		t.Errorf("took %d of memory", taken)
	}
	if want := path + ": key cls_token: has shape [1 1 768], the transformer wants [1 1 384]"; err == nil || err.Error() != want {
		t.Errorf("said %v, want %s", err, want)
	}
	for name, change := range map[string]func(v *encoder.ViT){
		"width":  func(v *encoder.ViT) { v.Dim = 32 },
		"blocks": func(v *encoder.ViT) { v.Depth = 3 },
		"patch":  func(v *encoder.ViT) { v.PatchSize = 8 },
	} {
		v := tiny
		change(&v)
		if _, err := ReadViT("testdata/tiny-dino.pth", v, ""); err == nil {
			t.Errorf("another %s was accepted", name)
		}
	}
	if _, err := ReadViT("testdata/tiny-dino.pth", encoder.ViT{Positions: encoder.DINOPositions}, ""); err == nil || !strings.Contains(err.Error(), "width 16") {
		t.Errorf("a transformer of no name: %v", err)
	}
}
