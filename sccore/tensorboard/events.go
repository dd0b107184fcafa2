// Package tensorboard writes numbers, texts and images as event files that TensorBoard reads.
//
// In go steps with named numbers, texts and images. Out comes one file of TFRecords, each an Event message of TensorFlow.
package tensorboard

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image/png"
	"maps"
	"math"
	"slices"

	"github.com/samber/lo"
)

// FilePrefix begins the name of a file that TensorBoard reads.
const FilePrefix = "events.out.tfevents."

// Point is what is known of one step, by name.
type Point struct {
	Step     int64
	WallTime float64 // Seconds since 1970, or any other clock.
	Scalars  map[string]float64
	Texts    map[string]string // Markdown.
	Images   map[string][]byte // PNG.
}

// Encode returns the content of an event file: the version, and then one event for each point with its scalars, texts and images, each in the order of names.
// The same points give the same bytes. More points only add bytes at the end, so that TensorBoard can follow a file that is written anew.
func Encode(points []Point) []byte {
	version := bytesField(nil, 3, []byte("brain.Event:2")) // Event.file_version
	content := record(nil, append(doubleField(nil, 1, lo.FirstOrEmpty(points).WallTime), version...))
	for _, p := range points {
		var summary []byte
		add := func(name string, value []byte) { // Summary.value with Value.tag
			summary = bytesField(summary, 1, append(bytesField(nil, 1, []byte(name)), value...))
		}
		for _, name := range slices.Sorted(maps.Keys(p.Scalars)) {
			add(name, binary.LittleEndian.AppendUint32([]byte{2<<3 | 5}, math.Float32bits(float32(p.Scalars[name])))) // Value.simple_value
		}
		for _, name := range slices.Sorted(maps.Keys(p.Texts)) {
			tensor := []byte{1 << 3, 7, 2<<3 | 2, 4, 2<<3 | 2, 2, 1 << 3, 1}   // TensorProto of one DT_STRING
			tensor = bytesField(tensor, 8, []byte(p.Texts[name]))              // TensorProto.string_val
			metadata := bytesField(nil, 1, bytesField(nil, 1, []byte("text"))) // SummaryMetadata.plugin_data.plugin_name
			add(name, bytesField(bytesField(nil, 8, tensor), 9, metadata))     // Value.tensor, metadata
		}
		for _, name := range slices.Sorted(maps.Keys(p.Images)) {
			size, _ := png.DecodeConfig(bytes.NewReader(p.Images[name]))              // No PNG has no size.
			picture := binary.AppendUvarint([]byte{1 << 3}, uint64(size.Height))      // Image.height
			picture = binary.AppendUvarint(append(picture, 2<<3), uint64(size.Width)) // Image.width
			add(name, bytesField(nil, 4, bytesField(picture, 4, p.Images[name])))     // Value.image, Image.encoded_image_string
		}
		event := doubleField(nil, 1, p.WallTime)                          // Event.wall_time
		event = binary.AppendUvarint(append(event, 2<<3), uint64(p.Step)) // Event.step
		content = record(content, bytesField(event, 5, summary))          // Event.summary
	}
	return content
}

// doubleField appends a protocol-buffer field of type double.
func doubleField(to []byte, number byte, value float64) []byte {
	return binary.LittleEndian.AppendUint64(append(to, number<<3|1), math.Float64bits(value))
}

// bytesField appends a protocol-buffer field of bytes, text or a message.
func bytesField(to []byte, number byte, value []byte) []byte {
	return append(binary.AppendUvarint(append(to, number<<3|2), uint64(len(value))), value...)
}

// record appends a TFRecord: the length, its checksum, the data and their checksum.
func record(to, data []byte) []byte {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	to = binary.LittleEndian.AppendUint32(append(to, length...), masked(length))
	return binary.LittleEndian.AppendUint32(append(to, data...), masked(data))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of a TFRecord: CRC-32C, rotated and shifted so that a checksum of data with checksums in it stays useful.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}
