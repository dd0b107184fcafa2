package synthetic

import (
	"bytes"
	"math"
	"testing"
)

func TestScenesAreDeterministic(t *testing.T) {
	for name, draw := range map[string]func(n, size int, seed uint64) *Set{"scenes": Scenes, "objects": Objects} {
		all, again, first := draw(9, 32, 5), draw(9, 32, 5), draw(4, 32, 5)
		if all.Identity != again.Identity || !bytes.Equal(all.PartMask, again.PartMask) {
			t.Errorf("%s: the same seed draws something else", name)
		}
		if !bytes.Equal(first.Pixels, all.Pixels[:len(first.Pixels)]) || !bytes.Equal(first.InstanceMask, all.InstanceMask[:len(first.InstanceMask)]) {
			t.Errorf("%s: the first images depend on the number", name)
		}
		if other := draw(9, 32, 6); other.Identity == all.Identity {
			t.Errorf("%s: another seed draws the same", name)
		}
	}
}

func TestSceneMasksAgree(t *testing.T) {
	const n, size = 200, 64
	for name, c := range map[string]struct {
		scenes      *Set
		least, most int
	}{"scenes": {Scenes(n, size, 1), 2, 3}, "objects": {Objects(n, size, 1), 1, 1}} {
		s := c.scenes
		covered, hidden, total := 0, 0, 0
		classes := map[uint8]int{}
		for i := range n {
			class := map[uint8]uint8{}
			areas := map[uint8]int{}
			for p := i * size * size; p < (i+1)*size*size; p++ {
				instance, kind, part := s.InstanceMask[p], s.ClassMask[p], s.PartMask[p]
				if (instance == 0) != (kind == 0) || (instance == 0) != (part == 0) {
					t.Fatalf("%s: pixel %d has instance %d, class %d, part %d", name, p, instance, kind, part)
				}
				if instance == 0 {
					continue
				}
				if known, ok := class[instance]; ok && known != kind || (part-1)/2 != kind-1 {
					t.Fatalf("%s: pixel %d has instance %d, class %d, part %d", name, p, instance, kind, part)
				}
				class[instance] = kind
				areas[instance]++
				covered++
			}
			if class[1] != uint8(s.Labels[i]+1) {
				t.Errorf("%s: image %d is labelled %d, its front object %d", name, i, s.Labels[i], class[1])
			}
			instances := uint8(0)
			for instance, area := range areas {
				instances = max(instances, instance)
				if area < 40 { // Less than a tenth of the smallest object.
					hidden++
				}
				total++
				classes[class[instance]]++
			}
			if int(instances) > c.most || int(instances) < c.least {
				t.Errorf("%s: image %d has %d objects", name, i, instances)
			}
		}
		if share := float64(covered) / (n * size * size); share < 0.15 || share > 0.75 {
			t.Errorf("%s: objects cover %.2f of the images", name, share)
		}
		if hidden > total/25 {
			t.Errorf("%s: %d of %d objects are nearly hidden", name, hidden, total)
		}
		if len(classes) != 6 {
			t.Errorf("%s: %d classes appear, want 6", name, len(classes))
		}
		for class, times := range classes {
			if want := float64(total) / 6; !(math.Abs(float64(times)-want) <= want/3) {
				t.Errorf("%s: class %d appears %d times of %d", name, class, times, total)
			}
		}
	}
}

// TestScenePartsHaveTheirHue averages the colour of each part over many images.
func TestScenePartsHaveTheirHue(t *testing.T) {
	const size = 32
	s := Objects(120, size, 2)
	var sums [12]rgb
	for p, part := range s.PartMask {
		if part > 0 {
			for k := range 3 {
				sums[part-1][k] += float64(s.Pixels[3*p+k])
			}
		}
	}
	for c, class := range several.classes {
		if class.core.texture == class.rim.texture {
			t.Errorf("class %d has two parts of %s", c, class.core.texture)
		}
		for i, p := range []part{class.core, class.rim} {
			sum := sums[2*c+i]
			// The hue is the angle of the colour about the axis of grays.
			got := math.Atan2(math.Sqrt(3)*(sum[1]-sum[2]), 2*sum[0]-sum[1]-sum[2]) / (2 * math.Pi)
			if off := math.Abs(math.Remainder(got-p.hue, 1)); !(off <= 1.0/24) {
				t.Errorf("part %d has hue %.3f, want %.3f", 2*c+i, got, p.hue)
			}
		}
	}
}
