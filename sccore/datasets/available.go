package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Status says whether a split of a dataset is in a data folder.
type Status struct {
	Key      string // The dataset's name on the command line, "cifar10".
	Name     string // The dataset's name, "CIFAR-10".
	Split    Split
	Folder   string // Folder of its files; empty if they are missing.
	Count    int    // Number of images found; of videos for DAVIS.
	Official int    // Number of images in the official dataset.
	Err      error  // Why the split cannot be read, in one line; nil if it can.

	Fetchable bool // Package fetch can download it.

	unit     string // What Count counts: "images" or "videos".
	identity func() (string, error)
}

// statuses looks for both splits of a dataset. open fills in what it finds.
func statuses(key, name string, official map[Split]int, open func(s *Status) error) (all []Status) {
	for _, split := range []Split{Train, Test} {
		s := Status{Key: key, Name: name, Split: split, Official: official[split], unit: "images"}
		s.Err = open(&s)
		all = append(all, s)
	}
	return all
}

// Available looks in a data folder for both splits of every dataset: CIFAR-10, CIFAR-100, ImageNet, the segmentation datasets, the
// objects of COCO, and DAVIS.
// It checks only the names and sizes of files, so [Status.Identity] may still fail.
func Available(dir string) []Status {
	out := AvailableCIFAR(dir)
	out = append(out, statuses("imagenet", "ImageNet-1k", imageNetOfficial, func(s *Status) error {
		images, err := ImageNet(dir, s.Split)
		if err == nil {
			s.set(filepath.Join(dir, "imagenet", images.Name), images.Len(), images.Identity)
		}
		return err
	})...)
	for _, d := range layouts {
		out = append(out, statuses(d.key, d.name, d.official, func(s *Status) error {
			images, err := d.open(dir, s.Split)
			if err == nil {
				s.set(images.folder, images.Len(), images.Identity)
			}
			return err
		})...)
	}
	out = append(out, statuses("coco", "COCO objects", cocoStuff.official, func(s *Status) error {
		return s.cocoObjects(dir)
	})...)
	return append(out, statuses("davis", "DAVIS", nil, func(s *Status) error {
		s.unit = "videos"
		videos, err := DAVIS(dir, s.Split)
		if err == nil {
			s.Name, s.Official = "DAVIS-"+videos.masks, davisOfficial[videos.masks][s.Split]
			s.set(videos.folder, len(videos.All), videos.Identity)
		}
		return err
	})...)
}

// AvailableCIFAR is [Available] for CIFAR-10 and CIFAR-100 alone. dir may also be the folder of their batches.
func AvailableCIFAR(dir string) (out []Status) {
	for _, c := range []*cifar{cifar10, cifar100} {
		out = append(out, statuses(c.key, c.name, c.official, func(s *Status) (err error) {
			s.Fetchable = true
			s.Folder, s.Count, err = c.find(dir, s.Split)
			folder, split := s.Folder, s.Split
			s.identity = func() (string, error) {
				im, err := c.read(folder, split)
				if err != nil {
					return "", err
				}
				return im.Identity, nil
			}
			return err
		})...)
	}
	return out
}

// set fills in the status of a split that was found.
func (s *Status) set(folder string, count int, identity string) {
	s.Folder, s.Count = folder, count
	s.identity = func() (string, error) { return identity, nil }
}

func (c *cifar) find(dir string, split Split) (folder string, count int, err error) {
	if folder, err = c.locate(dir); err != nil {
		return "", 0, err
	}
	files, err := c.present(folder, split)
	if err == nil {
		count, err = c.count(folder, files)
	}
	return folder, count, err
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
