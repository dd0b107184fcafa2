package synthetic

import (
	"bytes"
	"testing"
)

func TestSegmentedHasABackground(t *testing.T) {
	s := Scenes(3, 32, 7).Segmentation()
	scenes := Scenes(3, 32, 7)
	if s.Len() != 3 || len(s.Classes) != 7 || s.Identity != scenes.Identity {
		t.Errorf("%d images, classes %q, identity %q", s.Len(), s.Classes, s.Identity)
	}
	for i := range s.Len() {
		a, err := s.Read(i)
		if err != nil || a.Height != 32 || a.Width != 32 || !bytes.Equal(a.Pixels, scenes.At(i)) || !bytes.Equal(a.Mask, scenes.ClassMask[i*1024:(i+1)*1024]) {
			t.Errorf("image %d: %v", i, err)
		}
		if picture := a.Image(); picture.RGBAAt(5, 9).G != a.Pixels[3*(9*32+5)+1] {
			t.Errorf("picture %d is another", i)
		}
	}
}
