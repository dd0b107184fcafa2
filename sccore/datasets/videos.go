package datasets

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"path/filepath"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
)

// DAVIS lists the videos of a split of DAVIS-2017 (Pont-Tuset et al. 2017) or DAVIS-2016 (Perazzi et al. 2016) below dir/DAVIS or dir/davis,
// in the official layout:
//
//	JPEGImages/480p/NAME/00000.jpg     frames
//	Annotations/480p/NAME/00000.png    one mask per frame
//	ImageSets/2017/{train,val}.txt     names of the videos; or else ImageSets/2016, or else all folders
//
// Masks of 2017 have a palette: 0 is the background, objects count from 1, and 255 is void, which counts as background as in the DAVIS
// code. Masks of 2016 are grey with 0 for the background and 255 for the one object. A listed video without frames, a frame without a mask,
// and a mask without a frame are errors. Frames or masks of different sizes are errors when they are read.
func DAVIS(dir string, split Split) (_ *Videos, err error) {
	defer try.Handle(&err)
	try.E(dataFolder("DAVIS", dir))
	list := try.E1(partOf("DAVIS", split, "train", "val"))
	root := try.E1(locate("DAVIS", dir, []string{"DAVIS", "davis"}, "JPEGImages/480p"))
	set, names, err := davisNames(root, list)
	if err != nil {
		return nil, fmt.Errorf("DAVIS: %v", err) // Not %w: an incomplete dataset is not a missing one.
	}
	digest, frames := newFileDigest(), 0
	for _, name := range names {
		video, release, err := openDAVISVideo(root, name, digest)
		if err != nil {
			return nil, fmt.Errorf("DAVIS: %v", err)
		}
		set.All, set.release = append(set.All, video), cmp.Or(set.release, release)
		frames += video.Frames
	}
	set.folder = root
	set.Identity = fmt.Sprintf("%s: %d videos, %d frames, sha256 of names and sizes %s", set.Name, len(set.All), frames, digest)
	return set, nil
}

// davisNames reads the first list that exists.
func davisNames(root, list string) (set *Videos, names []string, err error) {
	defer try.Handle(&err)
	for _, year := range []string{"2017", "2016"} {
		file := filepath.Join(root, "ImageSets", year, list+".txt")
		if !exists(file) {
			continue
		}
		names, err := readList(file, true)
		if twice := lo.FindDuplicates(names); len(twice) > 0 {
			return nil, nil, fmt.Errorf("%s: %s is listed twice", file, twice[0])
		}
		return &Videos{Name: "DAVIS-" + year + " " + list}, names, err
	}
	folder := filepath.Join(root, "JPEGImages", "480p")
	names = lo.Filter(try.E1(namesIn(folder, "", false)), func(name string, _ int) bool { return IsFolder(filepath.Join(folder, name)) })
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("%s: contains no folders of videos", folder)
	}
	return &Videos{Name: "DAVIS, all folders"}, names, nil
}

// openDAVISVideo lists the files of a video and adds them to the digest. It also returns the year of the release that the first mask comes from: 2017 with a
// palette, 2016 in grey.
func openDAVISVideo(root, name string, digest fileDigest) (v Video, release string, err error) {
	defer try.Handle(&err)
	frame := func(stem string) string { return filepath.Join(root, "JPEGImages/480p", name, stem+".jpg") }
	mask := func(stem string) string { return filepath.Join(root, "Annotations/480p", name, stem+".png") }
	var stems [2][]string
	for i, file := range []func(stem string) string{frame, mask} {
		folder, ending := filepath.Split(file(""))
		stems[i] = try.E1(namesIn(folder, ending, false))
		if len(stems[i]) == 0 {
			return v, "", fmt.Errorf("%s: contains no %s files", filepath.Clean(folder), ending)
		}
		for _, stem := range stems[i] {
			try.E(digest.addFile(root, file(stem)))
		}
	}
	frames, masks := stems[0], stems[1]
	for _, stem := range slices.Concat(frames, masks) {
		switch {
		case !slices.Contains(masks, stem):
			return v, "", fmt.Errorf("%s has no mask %s", frame(stem), mask(stem))
		case !slices.Contains(frames, stem):
			return v, "", fmt.Errorf("%s has no frame %s", mask(stem), frame(stem))
		}
	}
	headers := make([]image.Config, 2) // Of the first frame and its mask.
	for i, file := range []string{frame(frames[0]), mask(frames[0])} {
		headers[i] = try.E1(loadPath(file, func(content []byte) (image.Config, error) {
			header, _, err := image.DecodeConfig(bytes.NewReader(content))
			return header, err
		}))
	}
	_, hasPalette := headers[1].ColorModel.(color.Palette)
	release = lo.Ternary(hasPalette, "2017", "2016")
	v = Video{Name: name, Frames: len(frames), Size: Size{headers[0].Height, headers[0].Width}}
	fits := func(path string, size Size) error {
		if size == v.Size {
			return nil
		}
		return fmt.Errorf("%s: has %d×%d pixels, the first frame %d×%d", path, size.Width, size.Height, v.Width, v.Height)
	}
	v.Frame = func(i int) (_ []uint8, err error) {
		defer try.Handle(&err)
		picture := try.E1(ReadStored(frame(frames[i])))
		return picture.Pixels, fits(picture.Name, Size{picture.Height, picture.Width})
	}
	v.Mask = func(i int) ([]uint8, error) {
		size := Size{}
		pixels, err := loadPath(mask(frames[i]), func(content []byte) (pixels []uint8, err error) {
			pixels, size, err = decodeMask(content)
			return pixels, err
		})
		if err == nil {
			err = fits(mask(frames[i]), size)
		}
		return pixels, err
	}
	return v, release, nil
}

// davisOfficial holds the number of videos of each release.
var davisOfficial = map[string]map[Split]int{"2017": {Train: 60, Test: 30}, "2016": {Train: 30, Test: 20}}

// decodeMask reads a mask with a palette or in grey, [height, width]: objects from 1, and 0 for background and void.
func decodeMask(content []byte) (mask []uint8, size Size, err error) {
	defer try.Handle(&err)
	const coloursAt, palette = 25, 3 // The type of colours in the header.
	m := try.E1(decodeIDs(content))
	only := !slices.ContainsFunc(m.of, func(id uint32) bool { return id != 0 && id != 255 })
	void := lo.Ternary[uint32](only && content[coloursAt] != palette, 1, 0) // What 255 stands for.
	mask, err = m.classes(func(id uint32) (uint8, bool) {
		if id == 255 {
			id = void
		}
		return uint8(id), id < 255
	})
	return mask, Size{m.height, m.width}, err
}

// Videos is a set of short videos with object masks.
type Videos struct {
	Name string // "DAVIS-2017 val"

	// Identity identifies the videos: their number, the number of frames, and the first 16 hexadecimal digits of the SHA-256 digest of the files' names and sizes.
	Identity string

	All []Video // In the order of the dataset's list.

	folder, release string // The folder of DAVIS, and the year of the release that its masks come from.
}

// Video is a sequence of frames of one size, read on demand.
type Video struct {
	Name   string
	Frames int
	Size   // Size of every frame and mask.

	// Frame returns frame i, [Height, Width, 3] from 0 to 255, and Mask its annotation, [Height, Width]: 0 for the background, and 1, 2, … for the objects. They
	// panic unless 0 ≤ i < Frames. The error names the file.
	Frame, Mask func(i int) ([]uint8, error)
}

// Objects returns the number of objects to track: the highest number in the first mask, as the DAVIS code counts them. A first mask
// without objects is an error.
func (v Video) Objects() (_ int, err error) {
	defer try.Handle(&err)
	highest := int(slices.Max(try.E1(v.Mask(0))))
	if highest == 0 {
		return 0, fmt.Errorf("video %s: no object in the first mask", v.Name)
	}
	return highest, nil
}
