package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
)

// zipped returns a zip of files: names and contents in turn.
func zipped(t testing.TB, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		file, err := w.Create(files[i])
		if err == nil {
			_, err = file.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tarOf returns a tar of files, likewise.
func tarOf(t testing.TB, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		err := w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644})
		if err == nil {
			_, err = w.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(content)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// picture is a JPEG of 8×6 pixels, mask a PNG with a palette whose pixels are all 1, and segments a PNG in colours whose pixels are all 1.
func pictures(t testing.TB) (picture, mask, segments string) {
	t.Helper()
	bounds := image.Rect(0, 0, 8, 6)
	var files [3]bytes.Buffer
	labels := image.NewPaletted(bounds, color.Palette{color.Black, color.White})
	for i := range labels.Pix {
		labels.Pix[i] = 1
	}
	coloured := image.NewRGBA(bounds)
	for i := range bounds.Dx() * bounds.Dy() {
		copy(coloured.Pix[4*i:], []uint8{1, 0, 0, 255})
	}
	if err := errors.Join(jpeg.Encode(&files[0], image.NewRGBA(bounds), nil), png.Encode(&files[1], labels), png.Encode(&files[2], coloured)); err != nil {
		t.Fatal(err)
	}
	return files[0].String(), files[1].String(), files[2].String()
}

// tinyArchives returns archives of all datasets but CIFAR, by their names.
func tinyArchives(t testing.TB) map[string][]byte {
	t.Helper()
	picture, mask, segments := pictures(t)
	json := func(part string) string {
		return fmt.Sprintf(`{"images": [{"id": 1, "file_name": "%s1.jpg", "height": 6, "width": 8}], "categories": [{"id": 1, "name": "person", "isthing": 1}],
			"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 8, 6], "area": 48, "iscrowd": 0,
			"segmentation": [[0, 0, 8, 0, 8, 6, 0, 6]], "file_name": "%[1]s1.png", "segments_info": [{"id": 1, "category_id": 1, "iscrowd": 0}]}]}`, part)
	}
	pair := `{"src_imname": "a.jpg", "trg_imname": "b.jpg", "category": "cat", "src_kps": [[1, 2]], "trg_kps": [[3, 4]], "trg_bndbox": [0, 0, 8, 6]}`
	return map[string][]byte{
		"tiny-imagenet-200.zip": zipped(t, "tiny-imagenet-200/words.txt", "", "tiny-imagenet-200/train/n01/images/n01_0.JPEG", picture,
			"tiny-imagenet-200/train/n01/n01_boxes.txt", "n01_0.JPEG 0 0 1 1", "tiny-imagenet-200/train/n02/images/n02_0.JPEG", picture,
			"tiny-imagenet-200/train/n02/n02_boxes.txt", "", "tiny-imagenet-200/val/images/val_0.JPEG", picture,
			"tiny-imagenet-200/val/images/val_1.JPEG", picture, "tiny-imagenet-200/val/val_annotations.txt", "val_0.JPEG\tn02\t0\t0\t1\t1\nval_1.JPEG\tn01\t0\t0\t1\t1\n",
			"tiny-imagenet-200/test/images/test_0.JPEG", picture),
		"VOCtrainval_11-May-2012.tar": tarOf(t, "VOCdevkit/VOC2012/JPEGImages/2007_1.jpg", picture, "VOCdevkit/VOC2012/JPEGImages/2007_2.jpg", picture,
			"VOCdevkit/VOC2012/JPEGImages/2007_3.jpg", picture, "VOCdevkit/VOC2012/SegmentationClass/2007_1.png", mask,
			"VOCdevkit/VOC2012/SegmentationClass/2007_2.png", mask, "VOCdevkit/VOC2012/ImageSets/Segmentation/train.txt", "2007_1\n",
			"VOCdevkit/VOC2012/ImageSets/Segmentation/val.txt", "2007_2\n"),
		"SegmentationClassAug.zip": zipped(t, "SegmentationClassAug/2007_1.png", mask, "__MACOSX/SegmentationClassAug/._2007_1.png", "x",
			"SegmentationClassAug/._2007_3.png", "x", "SegmentationClassAug/2007_3.png", mask),
		"train_aug.txt": []byte("2007_1\n2007_3\n"),
		"ADEChallengeData2016.zip": zipped(t, "ADEChallengeData2016/images/training/a.jpg", picture, "ADEChallengeData2016/annotations/training/a.png", mask,
			"ADEChallengeData2016/images/validation/b.jpg", picture, "ADEChallengeData2016/annotations/validation/b.png", mask),
		"train2017.zip": zipped(t, "train2017/", "", "train2017/t1.jpg", picture),
		"val2017.zip":   zipped(t, "val2017/", "", "val2017/v1.jpg", picture),
		"annotations_trainval2017.zip": zipped(t, "annotations/captions_val2017.json", "{}",
			"annotations/instances_train2017.json", json("t"), "annotations/instances_val2017.json", json("v")),
		"panoptic_annotations_trainval2017.zip": zipped(t, "annotations/panoptic_train2017.json", json("t"), "annotations/panoptic_val2017.json", json("v"),
			"annotations/panoptic_train2017.zip", string(zipped(t, "panoptic_train2017/t1.png", segments, "__MACOSX/panoptic_train2017/._t1.png", "")),
			"annotations/panoptic_val2017.zip", string(zipped(t, "panoptic_val2017/v1.png", segments))),
		"DAVIS-2017-trainval-480p.zip": zipped(t, "DAVIS/README.md", "", "DAVIS/ImageSets/2017/train.txt", "bear\n", "DAVIS/ImageSets/2017/val.txt", "swan\n",
			"DAVIS/JPEGImages/480p/bear/00000.jpg", picture, "DAVIS/Annotations/480p/bear/00000.png", mask,
			"DAVIS/JPEGImages/480p/swan/00000.jpg", picture, "DAVIS/Annotations/480p/swan/00000.png", mask),
		"SPair-71k.tar.gz": gzipped(t, tarOf(t, "SPair-71k/JPEGImages/cat/a.jpg", picture, "SPair-71k/JPEGImages/cat/b.jpg", picture,
			"SPair-71k/PairAnnotation/trn/1.json", pair, "SPair-71k/PairAnnotation/test/2.json", pair, "SPair-71k/PairAnnotation/test/._2.json", "x")),
	}
}

// tiny is a dataset with the archives of tinyArchives. Its splits are whole if there is at least one image in each.
func tiny(key string, archives map[string][]byte) Dataset {
	d := Table[slices.IndexFunc(Table, func(d Dataset) bool { return d.Key == key })]
	d.Archives = slices.Clone(d.Archives)
	for i, a := range d.Archives {
		name, _, _ := strings.Cut(path.Base(a.Address), "?")
		if d.Archives[i].Unpacked, d.Archives[i].Size = 1<<20, 1<<20; a.Digest != "" {
			d.Archives[i].Digest = digestOf(archives[name])
		}
	}
	d.found = func(dir string) []datasets.Status {
		found := datasets.Available(dir, key)
		for i, s := range found {
			if found[i].Official = s.Count; key == "voc2012" {
				found[i].Official = map[datasets.Split]int{datasets.Train: 2, datasets.Test: 1}[s.Split]
			}
		}
		return found
	}
	return d
}

// mirror serves archives by their names and lists the requests.
func mirror(t *testing.T, archives map[string][]byte) (url string, requested *[]string) {
	t.Helper()
	requested = new([]string)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requested = append(*requested, path.Base(r.URL.Path))
		content, ok := archives[path.Base(r.URL.Path)]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(content)
	}))
	t.Cleanup(web.Close)
	return web.URL, requested
}

// filesBelow lists the files below a folder.
func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			file, err = filepath.Rel(dir, file)
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestEveryLayoutIsRead: package datasets opens what is fetched, nothing else is left, and nothing is fetched twice.
func TestEveryLayoutIsRead(t *testing.T) {
	archives := tinyArchives(t)
	open := map[string]func(dir string, split datasets.Split) error{
		"voc2012": func(dir string, split datasets.Split) error {
			set, err := datasets.VOC(dir, split)
			if err == nil {
				_, err = set.Read(set.Len() - 1)
			}
			return err
		},
		"ade20k": func(dir string, split datasets.Split) error {
			set, err := datasets.OpenSegmentation("ade20k", dir, split)
			if err == nil {
				_, err = set.Read(0)
			}
			return err
		},
		"coco": func(dir string, split datasets.Split) error {
			stuff, err := datasets.OpenSegmentation("coco", dir, split)
			if err == nil {
				_, err = stuff.Read(0)
			}
			objects, objectsErr := datasets.COCOObjects(dir, split)
			if objectsErr == nil && len(objects.Annotations(0)) != 1 {
				t.Errorf("%d objects", len(objects.Annotations(0)))
			}
			return errors.Join(err, objectsErr)
		},
		"davis": func(dir string, split datasets.Split) error {
			videos, err := datasets.DAVIS(dir, split)
			if err == nil {
				_, err = videos.All[0].Mask(0)
			}
			return err
		},
		"spair": func(dir string, split datasets.Split) error {
			pairs, err := datasets.SPair(dir, split)
			if err == nil && len(pairs) != 1 {
				err = fmt.Errorf("%d pairs", len(pairs))
			}
			return err
		},
		"tiny-imagenet": func(dir string, split datasets.Split) error {
			im, err := datasets.ReadFolder(filepath.Join(dir, "tiny-imagenet", string(split)), 8)
			if err == nil && (im.Len() != 2 || !slices.Equal(im.Classes, []string{"n01", "n02"}) || len(im.Skipped) > 0) {
				err = fmt.Errorf("%d images of %v without %v", im.Len(), im.Classes, im.Skipped)
			}
			return err
		},
	}
	for _, d := range Table {
		if d.Steps != "" || strings.HasPrefix(d.Key, "cifar") {
			continue
		}
		t.Run(d.Key, func(t *testing.T) {
			dir, said := t.TempDir(), ""
			url, requested := mirror(t, archives)
			options := Options{BaseURL: url, Say: func(line string) { said += line + "\n" }}
			if err := fetchAll(t.Context(), dir, options, tiny(d.Key, archives)); err != nil {
				t.Fatal(err)
			}
			for _, split := range []datasets.Split{datasets.Train, datasets.Test} {
				if err := open[d.Key](dir, split); err != nil {
					t.Errorf("%s: %v", split, err)
				}
			}
			for _, file := range filesBelow(t, dir) {
				if !strings.HasPrefix(file, d.Folders[0]+"/") && file != digests || strings.Contains(file, "._") || strings.HasSuffix(file, ".zip") {
					t.Errorf("%s is left", file)
				}
			}
			unpinned := 0
			for _, a := range d.Archives {
				if a.Digest == "" {
					unpinned++
				}
				if !strings.Contains(said, a.Address) {
					t.Errorf("%s is not said in\n%s", a.Address, said)
				}
			}
			if strings.Count(said, "recorded the SHA-256 digest of") != unpinned || !strings.Contains(said, "of disk needed") {
				t.Errorf("said\n%s", said)
			}
			count := len(*requested)
			if err := fetchAll(t.Context(), dir, options, tiny(d.Key, archives)); err != nil || len(*requested) != count || count != len(d.Archives) {
				t.Errorf("again: %v, requests %v", err, *requested)
			}
		})
	}
}

// TestOnlyWhatIsMissingIsFetched: the masks of SBD come to an official PASCAL VOC, and a sample stays as it is.
func TestOnlyWhatIsMissingIsFetched(t *testing.T) {
	archives := tinyArchives(t)
	url, requested := mirror(t, archives)
	dir := t.TempDir()
	official := filepath.Join(dir, "VOCdevkit/VOC2012")
	a := Archive{Unpacked: 1 << 20, Take: map[string]string{"VOCdevkit": "."}}
	file := filepath.Join(t.TempDir(), "voc.tar")
	if err := errors.Join(os.WriteFile(file, archives["VOCtrainval_11-May-2012.tar"], 0o666), a.unpack(t.Context(), file, dir, func(int64) {})); err != nil {
		t.Fatal(err)
	}
	if err := fetchAll(t.Context(), dir, Options{BaseURL: url}, tiny("voc2012", archives)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(*requested, []string{"SegmentationClassAug.zip", "train_aug.txt"}) {
		t.Errorf("requests %v", *requested)
	}
	if set, err := datasets.VOC(dir, datasets.Train); err != nil || set.Len() != 2 {
		t.Errorf("%v, %v", set, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(official, "ImageSets/Segmentation/trainaug.txt")),
		os.WriteFile(filepath.Join(official, "ImageSets/Segmentation/val.txt"), []byte("2007_1\n2007_2\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	err := fetchAll(t.Context(), dir, Options{BaseURL: url}, tiny("voc2012", archives))
	if fmt.Sprint(err) != official+" exists but is incomplete (1 of 2 train images): move it away to fetch it" || len(*requested) != 2 {
		t.Errorf("a sample: %v", err)
	}
	// COCO's images may lie in a folder of their own.
	if err := os.MkdirAll(filepath.Join(dir, "coco/images/train2017"), 0o777); err != nil {
		t.Fatal(err)
	}
	*requested = nil
	if err := fetchAll(t.Context(), dir, Options{BaseURL: url}, tiny("coco", archives)); slices.Contains(*requested, "train2017.zip") {
		t.Errorf("requests %v, %v", *requested, err)
	}
}

// TestAKilledUnpackingGoesOn: archives that are unpacked are not fetched again, and files that are whole are not written again.
func TestAKilledUnpackingGoesOn(t *testing.T) {
	archives := tinyArchives(t)
	url, requested := mirror(t, archives)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	options := Options{BaseURL: url, Progress: func(what string, done, _ int64) {
		if what == "unpacking panoptic_annotations_trainval2017.zip" && done > 1000 {
			cancel()
		}
	}}
	d := tiny("coco", archives)
	if err := fetchAll(ctx, dir, options, d); !errors.Is(err, ctx.Err()) || err == nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "coco")); err == nil {
		t.Error("the folder of a part of the dataset is there")
	}
	work := filepath.Join(dir, "coco.partial/panoptic_annotations_trainval2017.zip.unpacked/annotations")
	whole, cut := filepath.Join(work, "panoptic_train2017.json"), filepath.Join(work, "panoptic_val2017.json")
	before, err := os.Stat(whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, []byte("{"), 0o666); err != nil { // A kill in the middle of a file.
		t.Fatal(err)
	}
	count := len(*requested)
	defer func() { freeBytes = Free }()
	freeBytes = func(string) (int64, error) { return 1<<20 + d.Archives[3].Size, nil } // What is unpacked needs no more.
	if err := fetchAll(t.Context(), dir, Options{BaseURL: url}, d); err != nil {
		t.Fatal(err)
	}
	if len(*requested) != count {
		t.Errorf("requests %v", *requested)
	}
	if after, err := os.Stat(filepath.Join(dir, "coco/annotations/panoptic_train2017.json")); err != nil || !os.SameFile(before, after) {
		t.Errorf("a whole file was written again, %v", err)
	}
	if _, err := datasets.OpenSegmentation("coco", dir, datasets.Test); err != nil {
		t.Error(err)
	}
	if left := filesBelow(t, dir); slices.ContainsFunc(left, func(file string) bool { return !strings.HasPrefix(file, "coco/") }) {
		t.Errorf("left %v", left)
	}
}

// TestTinyImageNetIsSortedOnce: a kill between the moves does no harm, and a list that leads elsewhere is refused.
func TestTinyImageNetIsSortedOnce(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "val_annotations.txt")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "test"), 0o777), os.WriteFile(filepath.Join(dir, "test/a.JPEG"), nil, 0o666),
		os.WriteFile(list, []byte("a.JPEG\tn01\t0\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := sortTinyImageNet(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "test/n01/a.JPEG")); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"../a n01", "a.JPEG ../../n01", "a.JPEG", "a.JPEG /n01"} {
		if err := os.WriteFile(list, []byte(line), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := sortTinyImageNet(dir); fmt.Sprint(err) != fmt.Sprintf("%s: %q is no image and its class", list, line) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
