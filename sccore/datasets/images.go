package datasets

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"image"
)

// Images is a labelled set of RGB images of one size, held in memory.
type Images struct {
	Name          string   // The dataset's name, "CIFAR-10".
	Pixels        []uint8  // [Len, Height, Width, 3], row-major, 0 to 255.
	Labels        []int32  // [Len], from 0 to len(Classes)-1.
	Height, Width int      // In pixels.
	Classes       []string // The name of each label.

	// Identity says what was read: the files, the number of images and classes, and the first 16 hexadecimal digits of the SHA-256
	// digest of pixels and labels. Equal identities mean equal data in equal order.
	Identity string

	// Skipped lists the files that are no part of the set although they lie among its images, in the order of their names.
	Skipped []Skipped
}

// Skipped is a file that a reader left out.
type Skipped struct {
	File   string // Its path within the folder or archive that was read.
	Reason string // One line.
}

// Split is the part of a dataset that its authors set apart.
type Split string

// The two splits.
const (
	Train Split = "train"
	Test  Split = "test"
)

// Len returns the number of images.
func (im *Images) Len() int { return len(im.Labels) }

// At returns the pixels of image i, [Height, Width, 3], as a part of Pixels. It panics unless 0 ≤ i < Len.
func (im *Images) At(i int) []uint8 {
	size := im.imageBytes()
	return im.Pixels[i*size : (i+1)*size : (i+1)*size]
}

// Image returns a copy of image i for drawing. It panics unless 0 ≤ i < Len.
func (im *Images) Image(i int) image.Image {
	picture := image.NewRGBA(image.Rect(0, 0, im.Width, im.Height))
	pixels := im.At(i)
	for p := range im.Width * im.Height {
		copy(picture.Pix[4*p:], pixels[3*p:3*p+3])
		picture.Pix[4*p+3] = 255
	}
	return picture
}

// Subset returns a smaller set for quick runs: n images (all of them if there are fewer), the first ones of each class, as many of each
// class as of the others where each has enough. They keep their order.
func (im *Images) Subset(n int) *Images {
	if n >= im.Len() {
		return im
	}
	byClass := make([][]int, len(im.Classes))
	for i, label := range im.Labels {
		byClass[label] = append(byClass[label], i)
	}
	chosen := make([]bool, im.Len())
	for rank := 0; n > 0; rank++ {
		for _, members := range byClass {
			if rank < len(members) && n > 0 {
				chosen[members[rank]] = true
				n--
			}
		}
	}
	head := &Images{Name: im.Name, Height: im.Height, Width: im.Width, Classes: im.Classes, Skipped: im.Skipped}
	for i, take := range chosen {
		if take {
			head.Pixels = append(head.Pixels, im.At(i)...)
			head.Labels = append(head.Labels, im.Labels[i])
		}
	}
	head.Identify("first of each class of (" + im.Identity + ")")
	return head
}

func (im *Images) imageBytes() int { return im.Height * im.Width * 3 }

// Identify sets Identity from the source's name and the set's content.
func (im *Images) Identify(source string) {
	digest := sha256.New()
	digest.Write(im.Pixels)
	labels := make([]byte, 0, 4*len(im.Labels))
	for _, label := range im.Labels {
		labels = binary.LittleEndian.AppendUint32(labels, uint32(label))
	}
	digest.Write(labels)
	im.Identity = fmt.Sprintf("%s: %d images %d×%d, %d classes, sha256 %x",
		source, im.Len(), im.Width, im.Height, len(im.Classes), digest.Sum(nil)[:8])
}
