package datasets

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzOrientation puts any TIFF structure behind any other segment of a JPEG: the orientation is one of the eight, the same wherever the segment lies, and
// moves pixels one to one.
func FuzzOrientation(f *testing.F) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		segment := exifSegment(order, 6)
		f.Add(segment[10:], []byte("JFIF\x00"))
		f.Add(append(segment[10:len(segment):len(segment)], segment...), []byte{0xff, 0xd8})
	}
	f.Add([]byte("MM\x00\x2a\xff\xff\xff\xff"), []byte{})
	f.Fuzz(func(t *testing.T, tiff, other []byte) {
		if len(tiff) > 65000 || len(other) > 65000 {
			return
		}
		exif := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(tiff)+8))
		exif = append(append(exif, "Exif\x00\x00"...), tiff...)
		comment := append(binary.BigEndian.AppendUint16([]byte{0xff, 0xfe}, uint16(len(other)+2)), other...)
		start := []byte{0xff, 0xd8}
		o := orientationOf(append(start[:2:2], exif...))
		if o < 1 || o > 8 {
			t.Fatalf("orientation %d", o)
		}
		for name, file := range map[string][]byte{
			"after a comment":  append(append(start[:2:2], comment...), exif...),
			"before a comment": append(append(start[:2:2], exif...), comment...),
			"after a filler":   append(append(start[:2:2], 0xff), exif...),
		} {
			if got := orientationOf(file); got != o {
				t.Errorf("%s the orientation is %d, alone %d", name, got, o)
			}
		}
		const width, height = 3, 2 // As stored.
		seen, columns, rows := map[[2]int]bool{}, width, height
		if o.transposes() {
			columns, rows = height, width
		}
		for y := range rows {
			for x := range columns {
				fromX, fromY := o.stored(x, y, width, height)
				if fromX < 0 || fromX >= width || fromY < 0 || fromY >= height || seen[[2]int{fromX, fromY}] {
					t.Errorf("orientation %d: (%d, %d) comes from (%d, %d)", o, x, y, fromX, fromY)
				}
				seen[[2]int{fromX, fromY}] = true
			}
		}
	})
}

// FuzzList reads any list of images, as ImageSets holds them: names that stay in the folder, or an error of one line.
func FuzzList(f *testing.F) {
	for _, list := range []string{"2007_000033\n2007_000042\n", "", "a b\r\nc", "../../etc/passwd", "a/b", ".", "\xff\xfe", "x\x00y", "a\u2028b", "bear\nblackswan\r\n", "../../etc"} {
		f.Add([]byte(list))
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		folder := t.TempDir()
		path := filepath.Join(folder, "list.txt")
		if err := os.WriteFile(path, list, 0o666); err != nil {
			t.Fatal(err)
		}
		if videos, err := readList(path, true); (err == nil) != (len(videos) > 0) || slices.ContainsFunc(videos, func(name string) bool { return !isName(name) }) {
			t.Errorf("videos %q, %v", videos, err)
		}
		names, err := readList(path, false)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("%q is not one line that names the file", err)
			}
			return
		}
		if len(names) == 0 {
			t.Error("neither names nor an error")
		}
		for _, name := range names {
			if image := filepath.Join(folder, name+".jpg"); filepath.Dir(image) != folder || strings.ContainsAny(name, "\n\r \t") {
				t.Errorf("%q gives %q", name, image)
			}
		}
	})
}

// FuzzVOCBoxes reads any file as VOC's annotation of boxes: at least one box with sides that are numbers, or an error of one line.
func FuzzVOCBoxes(f *testing.F) {
	f.Add([]byte(twoObjects))
	f.Add([]byte(`<?xml version="1.0" encoding="latin1"?><annotation><object/></annotation>`))
	f.Add([]byte(`<annotation><object><bndbox><xmin>NaN</xmin><xmax>1e99</xmax></bndbox></object></annotation>`))
	f.Fuzz(func(t *testing.T, content []byte) {
		boxes, err := readVOCBoxes(content)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 500 {
				t.Errorf("%q is not one short line", err)
			}
			return
		}
		for _, b := range boxes {
			if !(b[2] > b[0]) || !(b[3] > b[1]) {
				t.Errorf("box %v", b)
			}
		}
	})
}

// FuzzPair reads any file as a pair of SPair-71k: points in pairs and paths that stay in the folder, or an error of one line.
func FuzzPair(f *testing.F) {
	f.Add([]byte(`{"src_imname": "a.jpg", "trg_imname": "b.jpg", "category": "cat", "src_kps": [[1, 2]], "trg_kps": [[3, 4]], "trg_bndbox": [0, 0, 5, 6]}`))
	f.Add([]byte(`{"src_imname": "../a.jpg", "trg_bndbox": [1e308, 0, -1e308, 6]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		pair, err := readPair(content, "folder", "pair")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 500 {
				t.Errorf("%q is not one short line", err)
			}
			return
		}
		if len(pair.SourcePoints) != len(pair.TargetPoints) || filepath.Dir(filepath.Dir(pair.Source)) != filepath.Join("folder", "JPEGImages") {
			t.Errorf("%+v", pair)
		}
	})
}
