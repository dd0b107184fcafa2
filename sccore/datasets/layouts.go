package datasets

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"go.yaml.in/yaml/v2"
)

//go:embed table.yaml
var embedded []byte

// layouts are the official layouts of labelled images and of masks.
type layouts struct {
	CIFAR        []*cifar
	Segmentation []*layout
}

// table reads them when something first asks for a dataset, since most processes open none.
var table = sync.OnceValue(func() (all layouts) {
	if err := yaml.UnmarshalStrict(embedded, &all); err != nil {
		panic(err)
	}
	return all
})

// layout says how a dataset stores its images and masks. In paths, PART is the dataset's word for the split, and NAME the name of an image.
type layout struct {
	Key, Name string
	Official  map[Split]int
	Folders   []string // Below the data folder. The dataset is in the first one in which all that it holds is there.
	Holds     []string
	OneOf     []string           // A split has one of these folders of masks, in the order of Masks. The masks of the first one count.
	Parts     map[Split]string   // A sample without their folders is split in half, and so is one that lists its images in all.txt.
	Nested    bool               // Images are in folders below the split's folder.
	Images    []string           // Paths of images. The first folder that is there counts.
	Lists     map[Split][]string // Of the names of a split's images. The first one that is there counts. Without lists all files do.
	Unlisted  bool               // All files count if none of Lists is there.
	Masks     []maskKind         // Of a mask the first one that is there counts if OneOf does not choose.
	IDs       [][]uint32         `yaml:"ids"` // In masks: of each class, or in one list, of which each is a class; without them classes follow each other from First.
	First     uint32
	Void      []uint32 // In masks: what is ignored.
	Classes   []string
	Colours   []uint32 // Of the classes, 0xRRGGBB.
}

// maskKind is a kind of masks.
type maskKind struct {
	Path     string
	IDs      [][]uint32 `yaml:"ids"` // In place of the dataset's.
	Void     []uint32   // In place of the dataset's.
	Less     uint32     // An id is less by so much than the dataset's.
	Segments bool       // COCO's panoptic format: ids of segments, whose categories are in a file of annotations.
}

// classOf maps an id in a mask to a class.
type classOf func(id uint32) (class uint8, known bool)

// classOf returns the classes of the ids in a kind of masks.
func (s *layout) classOf(kind maskKind) classOf {
	var classes [256]uint8
	var known [256]bool
	set := func(id uint32, class uint8) { classes[id-kind.Less], known[id-kind.Less] = class, true }
	for _, id := range lo.CoalesceSliceOrEmpty(kind.Void, s.Void) {
		set(id+kind.Less, Ignore)
	}
	groups := lo.CoalesceSliceOrEmpty(kind.IDs, s.IDs, [][]uint32{lo.RangeFrom(s.First, len(s.Classes))})
	for i, group := range groups {
		for k, id := range group {
			if len(groups) == 1 {
				i = k
			}
			set(id, uint8(i))
		}
	}
	return func(id uint32) (uint8, bool) { return classes[uint8(id)], id < 256 && known[id] }
}

// pair holds the paths of an image and its mask.
type pair struct {
	image, mask string
	kind        maskKind
}

// SegmentationKeys lists the names that [OpenSegmentation] knows.
func SegmentationKeys() []string {
	return slices.Sorted(maps.Keys(lo.KeyBy(table().Segmentation, func(d *layout) string { return d.Key })))
}

// OpenSegmentation opens a split of a dataset by its name on the command line, one of [SegmentationKeys], below dir. What is there of it, and where it may lie, is
// in table.yaml.
func OpenSegmentation(key, dir string, split Split) (*Segmentation, error) {
	if d := layoutOf(key); d != nil {
		return d.open(dir, split)
	}
	return nil, fmt.Errorf("dataset %q: want one of %s", key, strings.Join(SegmentationKeys(), ", "))
}

// VOC opens PASCAL VOC 2012.
func VOC(dir string, split Split) (*Segmentation, error) {
	return OpenSegmentation("voc2012", dir, split)
}

// layoutOf returns the layout of a dataset; nil for an unknown one.
func layoutOf(key string) *layout {
	d, _ := lo.Find(table().Segmentation, func(d *layout) bool { return d.Key == key })
	return d
}

// open lists the files of a split and checks that each is there.
func (s *layout) open(dir string, split Split) (_ *Segmentation, err error) {
	defer try.Handle(&err)
	try.E(dataFolder(s.Name, dir))
	try.E1(partOf(s.Name, split, "", ""))
	folder, pairs := try.E2(s.list(dir, split))
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%s: no %s images in %s", s.Name, split, folder)
	}
	digest := newFileDigest()
	files := lo.FlatMap(pairs, func(p pair, _ int) []string { return []string{p.image, p.mask} })
	if first := pairs[0]; first.kind.Segments {
		files = append(files, annotationsOf(first.mask))
	}
	for _, file := range files {
		if err := digest.addFile(folder, file); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return &Segmentation{
		Name: s.Name, Classes: slices.Clone(s.Classes), folder: folder, count: len(pairs), colours: s.Colours,
		Identity: fmt.Sprintf("%s %s: %d images, %d classes, sha256 of names and sizes %s", s.Name, split, len(pairs), len(s.Classes), digest),
		read:     func(i int) (*SegmentedImage, error) { return s.read(pairs[i]) },
	}, nil
}

// list finds the images of a split and their masks.
func (s *layout) list(dir string, split Split) (folder string, pairs []pair, err error) {
	defer try.Handle(&err)
	part := s.Parts[split]
	inPart := func(paths []string) []string {
		return strings.Split(strings.ReplaceAll(strings.Join(paths, "\n"), "PART", part), "\n")
	}
	folder = try.E1(locate(s.Name, dir, s.Folders, inPart(s.Holds)...))
	there := func(path string) bool { return exists(filepath.Join(folder, path)) }
	kinds := s.Masks
	if s.OneOf != nil {
		first := slices.IndexFunc(inPart(s.OneOf), there)
		if first < 0 {
			return "", nil, missingf("no %s %s in %s: want one of %s", s.Name, split, folder, strings.Join(inPart(s.OneOf), ", "))
		}
		kinds = kinds[first : first+1]
	}
	var listed []string // Nil for all files.
	lists := inPart(s.Lists[split])
	if i := slices.IndexFunc(lists, there); s.Lists != nil && i >= 0 {
		listed = try.E1(readList(filepath.Join(folder, lists[i]), false))
		if path.Base(lists[i]) == "all.txt" {
			listed = shareOf(listed, split)
		}
	} else if s.Lists != nil && !s.Unlisted {
		return "", nil, missingf("%s has no %s images: %s does not exist", s.Name, split, filepath.Join(folder, lists[0]))
	}
	found := "" // The folder of the images.
	for _, image := range s.Images {
		above, _, _ := strings.Cut(image, "PART")
		sample := s.Lists == nil && !s.Nested && !there(above+s.Parts[Train]) && !there(above+s.Parts[Test])
		if sample { // It has no folders for the splits.
			part = ""
		}
		before, ending, _ := strings.Cut(strings.ReplaceAll(image, "PART", part), "NAME")
		if !there(before) || found != "" && found != before {
			continue
		}
		found = before
		names := listed
		if listed == nil {
			if names, err = namesIn(filepath.Join(folder, before), ending, s.Nested); err != nil {
				return "", nil, fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		if sample {
			names = shareOf(names, split)
		}
		for _, name := range names {
			full := func(pattern string) string {
				return filepath.Join(folder, strings.NewReplacer("PART", part, "NAME", name).Replace(pattern))
			}
			kind := kinds[max(slices.IndexFunc(kinds, func(kind maskKind) bool { return exists(full(kind.Path)) }), 0)]
			pairs = append(pairs, pair{full(image), full(kind.Path), kind})
		}
	}
	if found == "" {
		return "", nil, missingf("%s has no %s images: %s does not exist", s.Name, split, filepath.Join(folder, path.Dir(inPart(s.Images)[0])))
	}
	return folder, pairs, nil
}

// namesIn lists the files with an ending in a folder, or in the folders in it, sorted and without the ending. Hidden files do not count.
func namesIn(folder, ending string, nested bool) (names []string, err error) {
	defer try.Handle(&err)
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		name, ends := strings.CutSuffix(entry.Name(), ending)
		if below := filepath.Join(folder, entry.Name()); nested && IsFolder(below) {
			inner := try.E1(namesIn(below, ending, false))
			names = append(names, lo.Map(inner, func(name string, _ int) string { return path.Join(entry.Name(), name) })...)
		} else if !nested && ends && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, name)
		}
	}
	return names, err
}

func (s *layout) read(p pair) (out *SegmentedImage, err error) {
	defer try.Handle(&err)
	out = try.E1(ReadStored(p.image))
	out.Mask, err = loadPath(p.mask, func(file []byte) (_ []uint8, err error) {
		defer try.Handle(&err)
		class, decode := s.classOf(p.kind), decodeIDs
		if p.kind.Segments {
			class, decode = try.E1(segmentsOf(p.mask, class)), decodeSegments
		}
		m := try.E1(decode(file))
		if m.height != out.Height || m.width != out.Width {
			return nil, fmt.Errorf("the mask is %d×%d pixels, its image %d×%d", m.width, m.height, out.Width, out.Height)
		}
		return m.classes(class)
	})
	return out, err
}

// locate returns the first of the folders below dir that contains all the given names. If there is none, the dataset is missing.
func locate(dataset, dir string, folders []string, holds ...string) (string, error) {
	for _, folder := range folders {
		absent := func(name string) bool { return !exists(filepath.Join(dir, folder, name)) }
		if !slices.ContainsFunc(holds, absent) {
			return filepath.Join(dir, folder), nil
		}
	}
	return "", missingf("no %s in %s: %s does not exist", dataset, dir, filepath.Join(folders[0], holds[0]))
}

// shareOf splits a sample that has no official splits: even positions are for training, odd ones for testing. An empty share is not nil.
func shareOf(names []string, split Split) []string {
	return lo.Filter(names, func(_ string, i int) bool { return (i%2 == 0) == (split == Train) })
}
