package datasets

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
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
func DAVIS(dir string, split Split) (*Videos, error) {
	if err := dataFolder("DAVIS", dir); err != nil {
		return nil, err
	}
	list, err := partOf("DAVIS", split, "train", "val")
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{"DAVIS", "davis"} {
		root := filepath.Join(dir, folder)
		if _, err := os.Stat(filepath.Join(root, "JPEGImages", "480p")); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("DAVIS: %s: %w", root, reason(err))
		}
		set, err := openDAVIS(os.DirFS(root), list)
		if err != nil {
			return nil, fmt.Errorf("DAVIS: %s: %v", root, err) // Not %w: an incomplete dataset is not a missing one.
		}
		set.folder = root
		return set, nil
	}
	return nil, missingf("DAVIS: no JPEGImages/480p in %s", filepath.Join(dir, "DAVIS"))
}

func openDAVIS(tree fs.FS, list string) (*Videos, error) {
	set, names, err := davisNames(tree, list)
	if err != nil {
		return nil, err
	}
	digest, frames := sha256.New(), 0
	for _, name := range names {
		video, err := openDAVISVideo(tree, name, digest.Write)
		if err != nil {
			return nil, err
		}
		set.All = append(set.All, video)
		frames += video.Frames
	}
	if set.masks, err = davisMasks(tree, names[0]); err != nil {
		return nil, err
	}
	set.Identity = fmt.Sprintf("%s: %d videos, %d frames, sha256 of names and sizes %x", set.Name, len(set.All), frames, digest.Sum(nil)[:8])
	return set, nil
}

// davisNames reads the first list that exists.
func davisNames(tree fs.FS, list string) (set *Videos, names []string, err error) {
	for _, year := range []string{"2017", "2016"} {
		file := path.Join("ImageSets", year, list+".txt")
		content, err := readFile(tree, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			names, err = parseVideoNames(content)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		return &Videos{Name: "DAVIS-" + year + " " + list}, names, nil
	}
	entries, err := fs.ReadDir(tree, "JPEGImages/480p")
	if err != nil {
		return nil, nil, fmt.Errorf("JPEGImages/480p: %w", reason(err))
	}
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		return nil, nil, errors.New("JPEGImages/480p contains no folders of videos")
	}
	return &Videos{Name: "DAVIS, all folders"}, names, nil
}

// parseVideoNames reads a list of folder names, one per line.
func parseVideoNames(content []byte) (names []string, err error) {
	for i, line := range strings.Split(string(content), "\n") {
		name := strings.TrimSpace(line)
		switch {
		case name == "":
		case strings.ContainsAny(name, "/\\\x00") || name == "." || name == "..":
			return nil, fmt.Errorf("line %d: %q is not the name of a folder", i+1, name)
		case slices.Contains(names, name):
			return nil, fmt.Errorf("line %d: %s is listed twice", i+1, name)
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("lists no videos")
	}
	return names, nil
}

// openDAVISVideo lists the files of a video and writes their names and sizes to the digest.
func openDAVISVideo(tree fs.FS, name string, digest func([]byte) (int, error)) (Video, error) {
	frames, masks := path.Join("JPEGImages/480p", name), path.Join("Annotations/480p", name)
	stems, err := davisFiles(tree, frames, ".jpg", digest)
	if err != nil {
		return Video{}, err
	}
	annotated, err := davisFiles(tree, masks, ".png", digest)
	if err != nil {
		return Video{}, err
	}
	for _, stem := range stems {
		if !slices.Contains(annotated, stem) {
			return Video{}, fmt.Errorf("%s has no mask %s.png", path.Join(frames, stem+".jpg"), path.Join(masks, stem))
		}
	}
	for _, stem := range annotated {
		if !slices.Contains(stems, stem) {
			return Video{}, fmt.Errorf("%s has no frame %s.jpg", path.Join(masks, stem+".png"), path.Join(frames, stem))
		}
	}
	first := path.Join(frames, stems[0]+".jpg")
	header, err := load(tree, first, first, func(content []byte) (image.Config, error) {
		header, _, err := image.DecodeConfig(bytes.NewReader(content))
		return header, err
	})
	if err != nil {
		return Video{}, err
	}
	v := Video{Name: name, Frames: len(stems), Size: Size{header.Height, header.Width}}
	read := func(file, what string, decode func(content []byte) ([]uint8, Size, error)) ([]uint8, error) {
		return load(tree, file, file, func(content []byte) ([]uint8, error) {
			pixels, size, err := decode(content)
			if err == nil && size != v.Size {
				err = fmt.Errorf("the %s is %d×%d pixels, the first frame %d×%d", what, size.Width, size.Height, v.Width, v.Height)
			}
			return pixels, err
		})
	}
	v.frame = func(i int) ([]uint8, error) { return read(path.Join(frames, stems[i]+".jpg"), "frame", decodeFrame) }
	v.mask = func(i int) ([]uint8, error) { return read(path.Join(masks, stems[i]+".png"), "mask", decodeMask) }
	return v, nil
}

// davisMasks returns the year of the release that a video's masks come from: 2017 with a palette, 2016 in grey.
func davisMasks(tree fs.FS, video string) (year string, err error) {
	folder := path.Join("Annotations/480p", video)
	stems, err := davisFiles(tree, folder, ".png", io.Discard.Write)
	if err != nil {
		return "", err
	}
	first := path.Join(folder, stems[0]+".png")
	return load(tree, first, first, func(content []byte) (string, error) {
		header, err := png.DecodeConfig(bytes.NewReader(content))
		if err != nil {
			return "", fmt.Errorf("damaged mask: %w", err)
		}
		if _, hasPalette := header.ColorModel.(color.Palette); hasPalette {
			return "2017", nil
		}
		return "2016", nil
	})
}

// davisOfficial holds the number of videos of each release.
var davisOfficial = map[string]map[Split]int{"2017": {Train: 60, Test: 30}, "2016": {Train: 30, Test: 20}}

// davisFiles lists the files of a folder with the extension, sorted and without it.
func davisFiles(tree fs.FS, folder, extension string, digest func([]byte) (int, error)) (stems []string, err error) {
	entries, err := fs.ReadDir(tree, folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, reason(err))
	}
	for _, entry := range entries {
		stem, ok := strings.CutSuffix(entry.Name(), extension)
		if !ok || strings.HasPrefix(stem, ".") {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(folder, entry.Name()), reason(err))
		}
		digest(fmt.Appendf(nil, "%q %d\n", path.Join(folder, entry.Name()), info.Size()))
		stems = append(stems, stem)
	}
	if len(stems) == 0 {
		return nil, fmt.Errorf("%s: contains no %s files", folder, extension)
	}
	return stems, nil
}

// decodeFrame reads an image at its own size, [height, width, 3].
func decodeFrame(content []byte) ([]uint8, Size, error) {
	picture, err := stored(content)
	if err != nil {
		return nil, Size{}, err
	}
	size := picture.Bounds().Size()
	return rgb(opaque(picture, picture.Bounds())), Size{size.Y, size.X}, nil
}

// decodeMask reads a mask with a palette or with 8 bits of grey, [height, width]: objects from 1, and 0 for background and void.
func decodeMask(content []byte) ([]uint8, Size, error) {
	picture, err := storedMask(content)
	if err != nil {
		return nil, Size{}, err
	}
	var rows []uint8
	var stride int
	object := uint8(0) // The label that 255 stands for.
	switch picture := picture.(type) {
	case *image.Paletted:
		rows, stride = picture.Pix, picture.Stride
	case *image.Gray:
		rows, stride = picture.Pix, picture.Stride
		if !slices.ContainsFunc(rows, func(label uint8) bool { return label != 0 && label != 255 }) {
			object = 1
		}
	default:
		return nil, Size{}, fmt.Errorf("want a palette or 8 bits of grey, got %T", picture)
	}
	size := picture.Bounds().Size()
	mask := make([]uint8, 0, size.X*size.Y)
	for y := range size.Y {
		for _, label := range rows[y*stride : y*stride+size.X] {
			if label == 255 {
				label = object
			}
			mask = append(mask, label)
		}
	}
	return mask, Size{size.Y, size.X}, nil
}

// Videos is a set of short videos with object masks.
type Videos struct {
	Name string // "DAVIS-2017 val"

	// Identity identifies the videos: their number, the number of frames, and the first 16 hexadecimal digits of the SHA-256 digest of the
	// files' names and sizes.
	Identity string

	All []Video // In the order of the dataset's list.

	folder, masks string // The folder of DAVIS, and the year of the release that its masks come from.
}

// Video is a sequence of frames of one size, read on demand.
type Video struct {
	Name   string
	Frames int
	Size   // Size of every frame and mask.

	frame, mask func(i int) ([]uint8, error)
}

// NewVideo makes a video from functions that read its frames and masks, as [Video.Frame] and [Video.Mask] do.
func NewVideo(name string, frames int, size Size, frame, mask func(i int) ([]uint8, error)) Video {
	return Video{name, frames, size, frame, mask}
}

// Frame returns frame i, [Height, Width, 3] from 0 to 255. It panics unless 0 ≤ i < Frames. The error names the file.
func (v Video) Frame(i int) ([]uint8, error) { return v.frame(i) }

// Mask returns the annotation of frame i, [Height, Width]: 0 for the background, and 1, 2, … for the objects. It panics unless
// 0 ≤ i < Frames. The error names the file.
func (v Video) Mask(i int) ([]uint8, error) { return v.mask(i) }

// Objects returns the number of objects to track: the highest number in the first mask, as the DAVIS code counts them. A first mask
// without objects is an error.
func (v Video) Objects() (int, error) {
	first, err := v.Mask(0)
	if err != nil {
		return 0, err
	}
	highest := int(slices.Max(first))
	if highest == 0 {
		return 0, fmt.Errorf("video %s: no object in the first mask", v.Name)
	}
	return highest, nil
}
