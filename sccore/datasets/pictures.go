package datasets

import (
	"fmt"
	"image"
	"io/fs"
	"os"
	"slices"
)

// Pictures is a folder of JPEG and PNG images that need no classes, at any depth, read one by one.
type Pictures struct {
	Names   []string // Paths within the folder, sorted.
	Skipped []Skipped

	dir  string
	tree fs.FS
}

// OpenPictures lists the images below dir. No image is an error, and every error names the folder.
func OpenPictures(dir string) (*Pictures, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, reason(err))
	} else if !info.IsDir() {
		return nil, fmt.Errorf("image folder %s: is a file", dir)
	}
	var found listing
	p := &Pictures{dir: dir, tree: os.DirFS(dir)}
	if err := found.add(p.tree, ".", 0); err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, err)
	}
	if len(found.images) == 0 {
		return nil, fmt.Errorf("image folder %s: no .jpg, .jpeg or .png in it", dir)
	}
	slices.Sort(found.images)
	p.Names, p.Skipped = found.images, found.others
	return p, nil
}

// Centre reads image i as the field evaluates: its shorter side resized to 8/7 of side (256 for 224), bicubically, then the side×side
// pixels about the centre, [side, side, 3]. The error names the file.
func (p *Pictures) Centre(i, side int) ([]uint8, error) {
	whole := side * 8 / 7
	pixels, err := readImage(p.tree, p.Names[i], whole)
	if err != nil {
		return nil, fmt.Errorf("image folder %s: %s: %w", p.dir, p.Names[i], err)
	}
	part := image.Rect(0, 0, side, side).Add(image.Pt((whole-side)/2, (whole-side)/2))
	out := make([]uint8, 0, side*side*3)
	for y := part.Min.Y; y < part.Max.Y; y++ {
		out = append(out, pixels[(y*whole+part.Min.X)*3:(y*whole+part.Max.X)*3]...)
	}
	return out, nil
}
