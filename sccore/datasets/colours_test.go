package datasets

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestColours(t *testing.T) {
	of := func(s *layout) *Segmentation {
		return &Segmentation{Name: s.Name, Classes: s.Classes, colours: s.Colours}
	}
	for name, c := range map[string]struct {
		data  *Segmentation
		class uint8
		want  color.RGBA
	}{
		"VOC background":      {of(voc), 0, color.RGBA{0, 0, 0, 255}},
		"VOC aeroplane":       {of(voc), 1, color.RGBA{128, 0, 0, 255}},
		"VOC person":          {of(voc), 15, color.RGBA{192, 128, 128, 255}},
		"VOC tvmonitor":       {of(voc), 20, color.RGBA{0, 64, 128, 255}},
		"VOC border":          {of(voc), Ignore, color.RGBA{224, 224, 192, 255}},
		"no class":            {of(voc), 21, color.RGBA{0, 0, 0, 255}},
		"ADE20k wall":         {of(ade20k), 0, color.RGBA{120, 120, 120, 255}},
		"ADE20k flag":         {of(ade20k), 149, color.RGBA{92, 0, 255, 255}},
		"Cityscapes road":     {of(cityscapes), 0, color.RGBA{128, 64, 128, 255}},
		"Cityscapes bicycle":  {of(cityscapes), 18, color.RGBA{119, 11, 32, 255}},
		"CamVid pavement":     {of(camVid), 4, color.RGBA{60, 40, 222, 255}},
		"COCOStuff-27":        {of(cocoStuff), 0, color.RGBA{128, 0, 0, 255}},
		"without own colours": {NewSegmentation("x", []string{"background", "y"}, "", 0, nil), 1, color.RGBA{128, 0, 0, 255}},
	} {
		if got := c.data.Colours()[c.class]; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for _, s := range table().Segmentation {
		if len(s.Colours) != len(s.Classes) {
			t.Errorf("%s: %d colours of %d classes", s.Name, len(s.Colours), len(s.Classes))
		}
	}
}

// TestDrawnMasksAreMasks writes a drawn mask and reads it again.
func TestDrawnMasksAreMasks(t *testing.T) {
	s, mask := NewSegmentation("x", []string{"a", "b"}, "", 0, nil), []uint8{0, 1, Ignore, 1, 0, 0}
	var file bytes.Buffer
	if err := png.Encode(&file, &image.Paletted{Pix: mask, Stride: 3, Rect: image.Rect(0, 0, 3, 2), Palette: s.Colours()}); err != nil {
		t.Fatal(err)
	}
	got, err := decodeIDs(file.Bytes())
	if want := []uint32{0, 1, 255, 1, 0, 0}; err != nil || got.height != 2 || got.width != 3 || !slices.Equal(got.of, want) {
		t.Errorf("%+v, %v, want %v", got, err, want)
	}
}

func TestOnly(t *testing.T) {
	s := NewSegmentation("x", []string{"a", "b", "c"}, "id", 1, func(int) (*SegmentedImage, error) {
		return &SegmentedImage{Name: "file", Height: 1, Width: 4, Mask: []uint8{0, 1, 2, Ignore}}, nil
	})
	only, err := s.Only("c", "a")
	if err != nil {
		t.Fatal(err)
	}
	got, err := only.Read(0)
	if want := []uint8{1, Ignore, 0, Ignore}; err != nil || !slices.Equal(got.Mask, want) || got.Name != "file" {
		t.Errorf("%+v, %v, want mask %v", got, err, want)
	}
	if !slices.Equal(only.Classes, []string{"c", "a"}) || only.Identity != "classes c, a of (id)" || only.Len() != 1 {
		t.Errorf("%+v", only)
	}
	if only.Colours()[0] != s.Colours()[2] {
		t.Errorf("class c has colour %v, before %v", only.Colours()[0], s.Colours()[2])
	}
	for want, classes := range map[string][]string{`x has no class "d"`: {"a", "d"}, `class "a" is given twice`: {"a", "b", "a"}, "x: no classes to keep": nil} {
		if _, err := s.Only(classes...); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", classes, err, want)
		}
	}
}

// TestPacks reads every image of the small packs of real data, if they are there.
func TestPacks(t *testing.T) {
	dir := os.Getenv("SEMCON_DATA")
	for name, c := range map[string]struct {
		open   func(dir string, split Split) (*Segmentation, error)
		counts [2]int
	}{"voc-dense128": {VOC, [2]int{1786, 443}}, "camvid128": {camVid.open, [2]int{367, 233}}} {
		for i, split := range []Split{Train, Test} {
			s, err := c.open(filepath.Join(dir, name), split)
			if dir == "" || (Status{Err: err}).Missing() {
				t.Logf("SEMCON_DATA has no %s", name)
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if s.Len() != c.counts[i] {
				t.Errorf("%s %s: %d images, want %d", name, split, s.Len(), c.counts[i])
			}
			for i := range s.Len() {
				if _, err := s.Read(i); err != nil {
					t.Error(err)
				}
			}
		}
	}
	// VOC's masks bring their colours along.
	masks, _ := filepath.Glob(filepath.Join(dir, "voc-dense128/VOCdevkit/VOC2012/SegmentationClass/*.png"))
	if len(masks) == 0 {
		return
	}
	file, err := os.Open(masks[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	picture, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range picture.(*image.Paletted).Palette[:21] {
		if want := (&Segmentation{Classes: voc.Classes, colours: voc.Colours}).Colours()[i]; color.RGBAModel.Convert(c) != want {
			t.Errorf("class %d has colour %v in %s, want %v", i, c, masks[0], want)
		}
	}
}
