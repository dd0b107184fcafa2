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

// Available looks in a data folder for both splits of every dataset: CIFAR-10, CIFAR-100, ImageNet, the segmentation datasets, the
// objects of COCO, and DAVIS.
// It checks only the names and sizes of files, so [Status.Identity] may still fail.
func Available(dir string) []Status {
	out := AvailableCIFAR(dir)
	for _, split := range []Split{Train, Test} {
		s := Status{Key: "imagenet", Name: "ImageNet-1k", Split: split, Official: imageNetOfficial[split], unit: "images"}
		images, err := ImageNet(dir, split)
		if s.Err = err; err == nil {
			s.set(filepath.Join(dir, "imagenet", images.Name), images.Len(), images.Identity)
		}
		out = append(out, s)
	}
	for _, d := range layouts {
		for _, split := range []Split{Train, Test} {
			s := Status{Key: d.key, Name: d.name, Split: split, Official: d.official[split], unit: "images"}
			images, err := d.open(dir, split)
			if s.Err = err; err == nil {
				s.set(images.folder, images.Len(), images.Identity)
			}
			out = append(out, s)
		}
	}
	for _, split := range []Split{Train, Test} {
		out = append(out, cocoObjectsStatus(dir, split))
	}
	for _, split := range []Split{Train, Test} {
		s := Status{Key: "davis", Name: "DAVIS", Split: split, unit: "videos"}
		videos, err := DAVIS(dir, split)
		if s.Err = err; err == nil {
			s.Name, s.Official = "DAVIS-"+videos.masks, davisOfficial[videos.masks][split]
			s.set(videos.folder, len(videos.All), videos.Identity)
		}
		out = append(out, s)
	}
	return out
}

// AvailableCIFAR is [Available] for CIFAR-10 and CIFAR-100 alone. dir may also be the folder of their batches.
func AvailableCIFAR(dir string) []Status {
	var out []Status
	for _, c := range []*cifar{cifar10, cifar100} {
		for _, split := range []Split{Train, Test} {
			s := Status{Key: c.key, Name: c.name, Split: split, Official: c.official[split], Fetchable: true, unit: "images"}
			s.Folder, s.Count, s.Err = c.find(dir, split)
			folder := s.Folder
			s.identity = func() (string, error) {
				im, err := c.read(folder, split)
				if err != nil {
					return "", err
				}
				return im.Identity, nil
			}
			out = append(out, s)
		}
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
