package datasets

import (
	"path/filepath"
	"strings"
	"testing"
)

const pairOfCats = `{"filename": "000001-a-b:cat", "src_imname": "a.jpg", "trg_imname": "b.jpg", "src_imsize": [50, 40, 3], "trg_imsize": [60, 40, 3],
	"src_bndbox": [1, 2, 30, 40], "trg_bndbox": [5, 6, 55, 36], "category": "cat", "src_kps": [[10, 20], [11, 21]], "trg_kps": [[12, 22], [13, 23]], "pair_id": 0}`

func TestSPairReadsTheOfficialLayout(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{
		"SPair-71k/PairAnnotation/test/000001-a-b:cat.json": []byte(pairOfCats), "SPair-71k/PairAnnotation/trn/000001-c-d:dog.json": []byte(pairOfCats),
		"SPair-71k/PairAnnotation/trn/000002-c-d:dog.json": []byte(pairOfCats),
	})
	for _, folder := range []string{dir, filepath.Join(dir, "SPair-71k")} {
		pairs, err := SPair(folder, Test)
		if err != nil || len(pairs) != 1 {
			t.Fatalf("%d pairs, %v", len(pairs), err)
		}
		p := pairs[0]
		if p.Target != filepath.Join(dir, "SPair-71k", "JPEGImages", "cat", "b.jpg") || p.SourcePoints[1] != [2]float64{11, 21} ||
			p.TargetPoints[0] != [2]float64{12, 22} || p.TargetBox != [4]float64{5, 6, 55, 36} || p.Category != "cat" {
			t.Errorf("%+v", p)
		}
	}
	if pairs, err := SPair(dir, Train); err != nil || len(pairs) != 2 {
		t.Errorf("training: %d pairs, %v", len(pairs), err)
	}
	for change, want := range map[[2]string]string{
		{`"a.jpg"`, `"../a.jpg"`}: "no name of an image", {`[[10, 20], [11, 21]]`, `[[10, 20]]`}: "1 points in the source and 2", {`[5, 6, 55, 36]`, `[5, 6, 5, 36]`}: "no box",
		{`{"filename"`, `{{"filename"`}: "cannot be read",
	} {
		bad := t.TempDir()
		write(t, bad, map[string][]byte{"PairAnnotation/test/x.json": []byte(strings.Replace(pairOfCats, change[0], change[1], 1))})
		if _, err := SPair(bad, Test); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x.json: ") {
			t.Errorf("%v: error %v, want one with %q", change, err, want)
		}
	}
	if _, err := SPair(t.TempDir(), Test); err == nil || !strings.Contains(err.Error(), "no SPair-71k in") {
		t.Errorf("without the dataset: %v", err)
	}
}

const twoObjects = `<annotation><folder>VOC2007</folder><size><width>50</width><height>40</height></size>
	<object><name>cat</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>50</xmax><ymax>40</ymax></bndbox></object>
	<object><name>dog</name><bndbox><xmin>10.5</xmin><ymin>12</ymin><xmax>20</xmax><ymax>22</ymax></bndbox>
		<part><name>head</name><bndbox><xmin>3</xmin><ymin>3</ymin><xmax>4</xmax><ymax>4</ymax></bndbox></part></object></annotation>`

func TestVOCObjectsReadsTheOfficialLayout(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{
		"VOCdevkit/VOC2007/Annotations/000005.xml": []byte(twoObjects), "VOCdevkit/VOC2007/Annotations/000007.xml": []byte(twoObjects),
		"VOCdevkit/VOC2007/ImageSets/Main/trainval.txt": []byte("000005\n000007\n"), "VOCdevkit/VOC2007/JPEGImages/000005.jpg": nil,
	})
	name, images, err := VOCObjects(dir)
	if err != nil || name != "VOC2007" || len(images) != 2 {
		t.Fatalf("%s, %d images, %v", name, len(images), err)
	}
	if got := images[0].Boxes; len(got) != 2 || got[0] != [4]float64{0, 1, 50, 40} || got[1] != [4]float64{9.5, 11, 20, 22} {
		t.Errorf("boxes %v", got)
	}
	for content, want := range map[string]string{
		"<annotation></annotation>": "has no object", "<annotation><object><name>dog</name></object></annotation>": "object 0: has no bndbox",
		strings.Replace(twoObjects, "<xmin>1</xmin>", "", 1):     "object 0: its bndbox lacks xmin",
		`<?xml version="1.0" encoding="EBCDIC-7"?><annotation/>`: `unknown encoding "EBCDIC-7"`, "<annotation>": "cannot be read", strings.Replace(twoObjects, "<xmax>50<", "<xmax>-5<", 1): "is no box",
	} {
		write(t, dir, map[string][]byte{"VOCdevkit/VOC2007/Annotations/000007.xml": []byte(content)})
		if _, _, err := VOCObjects(dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "000007.xml: ") {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for _, encoding := range []string{"ISO-8859-1", "us-ascii", "UTF-8"} {
		owner := map[bool]string{true: "Andr\xe9", false: "Andre"}[encoding == "ISO-8859-1"]
		write(t, dir, map[string][]byte{"VOCdevkit/VOC2007/Annotations/000007.xml": []byte(`<?xml version="1.0" encoding="` + encoding + `"?>` +
			strings.Replace(twoObjects, "<annotation>", "<annotation><owner>"+owner+"</owner>", 1))})
		if _, images, err := VOCObjects(dir); err != nil || len(images[1].Boxes) != 2 {
			t.Errorf("%s: %v", encoding, err)
		}
	}
	if _, _, err := VOCObjects(t.TempDir()); err == nil {
		t.Error("an empty folder holds PASCAL VOC")
	}
	lacking := t.TempDir()
	write(t, lacking, map[string][]byte{"VOC2012/JPEGImages/2007_1.jpg": nil})
	for _, part := range [][2]string{{"x", "lacks Annotations"}, {"Annotations/2007_1.xml", "lacks ImageSets/Main/trainval.txt"}} {
		want := part[1]
		write(t, lacking, map[string][]byte{"VOC2012/" + part[0]: nil})
		if _, _, err := VOCObjects(lacking); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), filepath.Join(lacking, "VOC2012")) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
