package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/dsnet/try"
)

// Status says whether a split of a dataset is in a data folder.
type Status struct {
	Key      string // The dataset's name on the command line, "cifar10".
	Name     string // The dataset's name, "CIFAR-10".
	Split    Split
	Folder   string // Folder of its files; empty if they are missing.
	Count    int    // Number of images found; of videos for DAVIS, of pairs for SPair-71k.
	Official int    // Number of images in the official dataset.
	Err      error  // Why the split cannot be read, in one line; nil if it can.

	Fetchable bool // Package fetch can download it.

	unit     string // What Count counts: "images", "videos" or "pairs".
	identity func() (string, error)
}

// byHand are the datasets that need an account or have no one archive.
var byHand = []string{"imagenet", "cityscapes", "camvid"}

// Available looks in a data folder for both splits of datasets: of those with the given keys, or without keys of every one. They are CIFAR-10, CIFAR-100,
// ImageNet, Tiny-ImageNet, the segmentation datasets, the objects of COCO, DAVIS and SPair-71k. It checks only the names and sizes of files, so
// [Status.Identity] may still fail.
func Available(dir string, keys ...string) (out []Status) {
	// add looks for both splits of a dataset. open fills in what it finds.
	add := func(key, name string, official map[Split]int, unit string, open func(s *Status)) {
		if len(keys) > 0 && !slices.Contains(keys, key) {
			return
		}
		for _, split := range []Split{Train, Test} {
			s := Status{Key: key, Name: name, Split: split, Official: official[split], Fetchable: !slices.Contains(byHand, key), unit: unit}
			s.Err = func() (err error) {
				defer try.Handle(&err)
				try.E(dataFolder(name, dir))
				open(&s)
				return nil
			}()
			out = append(out, s)
		}
	}
	for _, c := range table().CIFAR {
		add(c.Key, c.Name, c.Official, "images", func(s *Status) {
			folder, _, count, err := c.find(dir, s.Split)
			split := s.Split
			s.set(folder, count, func() (_ string, err error) {
				defer try.Handle(&err)
				return try.E1(c.read(folder, split)).Identity, nil
			})
			try.E(err)
		})
	}
	add("imagenet", "ImageNet-1k", imageNetOfficial, "images", func(s *Status) {
		images := try.E1(ImageNet(dir, s.Split))
		s.set(filepath.Join(dir, "imagenet", images.Name), images.Len(), known(images.Identity))
	})
	add("tiny-imagenet", "Tiny-ImageNet", map[Split]int{Train: 100_000, Test: 10_000}, "images", func(s *Status) {
		folder := filepath.Join(dir, "tiny-imagenet", string(s.Split))
		if !exists(folder) {
			try.E(missingf("Tiny-ImageNet has no %s images: %s does not exist", s.Split, folder))
		}
		images := try.E1(OpenImageFolder(folder))
		s.set(folder, images.Len(), known(images.Identity))
	})
	for _, d := range table().Segmentation {
		add(d.Key, d.Name, d.Official, "images", func(s *Status) {
			images := try.E1(d.open(dir, s.Split))
			s.set(images.folder, images.Len(), known(images.Identity))
		})
	}
	add("coco", "COCO objects", layoutOf("coco").Official, "images", func(s *Status) {
		images, _ := try.E2(locateCOCOObjects(dir, s.Split))
		split := s.Split
		s.set(images, len(try.E1(namesIn(images, ".jpg", false))), func() (_ string, err error) { // COCO's annotations take seconds to read.
			defer try.Handle(&err)
			return try.E1(COCOObjects(dir, split)).Identity, nil
		})
	})
	add("davis", "DAVIS", nil, "videos", func(s *Status) {
		videos := try.E1(DAVIS(dir, s.Split))
		s.Name, s.Official = "DAVIS-"+videos.release, davisOfficial[videos.release][s.Split]
		s.set(videos.folder, len(videos.All), known(videos.Identity))
	})
	add("spair", "SPair-71k", map[Split]int{Train: 53_340, Test: 12_234}, "pairs", func(s *Status) {
		folder, _, pairs := try.E3(spairFiles(dir, s.Split))
		s.set(folder, len(pairs), known(fmt.Sprintf("SPair-71k %s: %d pairs", s.Split, len(pairs))))
	})
	return out
}

// set fills in the status of a split that was found.
func (s *Status) set(folder string, count int, identity func() (string, error)) {
	s.Folder, s.Count, s.identity = folder, count, identity
}

func known(identity string) func() (string, error) {
	return func() (string, error) { return identity, nil }
}

// Identity returns the identity that run records hold. It reads the images of datasets that are held in memory.
func (s Status) Identity() (string, error) {
	if s.Err != nil {
		return "", s.Err
	}
	return s.identity()
}

// Missing reports whether the split is absent, as opposed to present but unreadable.
func (s Status) Missing() bool { return errors.Is(s.Err, fs.ErrNotExist) }

// String returns the status in one line without the dataset's name: "50000 images", "short: 4068 of 50000 images", or the text of Err.
func (s Status) String() string {
	switch {
	case s.Err != nil:
		return s.Err.Error()
	case s.Count < s.Official:
		return fmt.Sprintf("short: %d of %d %s", s.Count, s.Official, s.unit)
	}
	return fmt.Sprintf("%d %s", s.Count, s.unit)
}
