package datasets

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestAvailable(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{
		"cifar10/cifar-10-batches-bin/data_batch_1.bin": cifar10.records(3),
		"cifar10/cifar-10-batches-bin/data_batch_2.bin": cifar10.records(2),
		"cifar10/cifar-10-batches-bin/test_batch.bin":   cifar10.records(2)[:5000],
		"cifar-100-binary/train.bin":                    cifar100.records(1),
	})
	want := []string{
		"cifar10 train DIR/cifar10/cifar-10-batches-bin 5/50000 missing false: short: 5 of 50000 images",
		"cifar10 test DIR/cifar10/cifar-10-batches-bin 0/10000 missing false: DIR/cifar10/cifar-10-batches-bin/test_batch.bin: 1927 stray bytes after 1 records of 3073 bytes: truncated, or not a CIFAR-10 file",
		"cifar100 train DIR/cifar-100-binary 1/50000 missing false: short: 1 of 50000 images",
		"cifar100 test DIR/cifar-100-binary 0/10000 missing true: CIFAR-100 has no test images: DIR/cifar-100-binary/test.bin does not exist",
	}
	found := Available(dir, "cifar10", "cifar100")
	if len(found) != len(want) {
		t.Fatalf("%d splits, want %d", len(found), len(want))
	}
	for i, s := range found {
		if got := statusLine(s, dir); got != want[i] {
			t.Errorf("found\n\t%s, want\n\t%s", got, want[i])
		}
		identity, err := s.Identity()
		if (err == nil) != (s.Err == nil) || err == nil && !strings.Contains(identity, fmt.Sprintf(": %d images", s.Count)) {
			t.Errorf("%s %s: read %q with %v, found with %v", s.Name, s.Split, identity, err, s.Err)
		}
	}
	for _, s := range Available("") {
		if !s.Missing() || !strings.Contains(s.String(), "SEMCON_DATA") {
			t.Errorf("without a folder: %s", s)
		}
	}
}

// TestAvailableDatasetsWithoutDownload has class folders of ImageNet, and a DAVIS whose first video has masks of 2017.
func TestAvailableDatasetsWithoutDownload(t *testing.T) {
	dir := davisFolder(t)
	writeDAVIS(t, dir, "ImageSets/2016/val.txt", []byte("swan\n"))
	write(t, dir, map[string][]byte{"imagenet/train/n01/a.JPEG": {1}, "imagenet/train/n02/a.JPEG": {1}, "imagenet/val/a.JPEG": {1},
		"coco/train2017/1.jpg": {1}, "coco/annotations/instances_train2017.json": []byte("{}"), "coco/val2017/2.jpg": {1}})
	want := []string{
		"imagenet train DIR/imagenet/train 2/1281167 missing false: short: 2 of 1281167 images",
		"imagenet test  0/50000 missing true: ImageNet-1k has no labelled test images: DIR/imagenet/val/a.JPEG lies outside the class folders",
		"coco train DIR/coco/train2017 1/118287 missing false: short: 1 of 118287 images",
		"coco test  0/5000 missing true: no COCO test in DIR/coco: want val2017 and one of annotations/instances_val2017.json and annotations/panoptic_val2017.json",
		"davis train DIR/DAVIS 2/60 missing false: short: 2 of 60 videos",
		"davis test DIR/DAVIS 1/20 missing false: short: 1 of 20 videos",
	}
	var found []string
	for _, s := range Available(dir) {
		if s.Key == "imagenet" || s.Key == "davis" || s.Name == "COCO objects" {
			found = append(found, statusLine(s, dir))
		}
		if identity, err := s.Identity(); s.Key == "davis" && (err != nil || !strings.Contains(identity, "videos")) {
			t.Errorf("%s: %q, %v", s.Name, identity, err)
		}
	}
	if !slices.Equal(found, want) {
		t.Errorf("found\n\t%s, want\n\t%s", strings.Join(found, "\n\t"), strings.Join(want, "\n\t"))
	}
	if err := os.Remove(dir + "/DAVIS/Annotations/480p/swan/00001.png"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir + "/imagenet/train"); err != nil {
		t.Fatal(err)
	}
	for _, s := range Available(dir) {
		switch {
		case s.Key == "davis" && (s.Err == nil || s.Missing()):
			t.Errorf("half of DAVIS: %s, missing %v", s, s.Missing())
		case s.Key == "imagenet" && s.Split == Train && !strings.HasSuffix(s.String(), "imagenet itself have no labels"):
			t.Errorf("ImageNet without train: %s", s)
		}
	}
	if _, err := ImageNet(dir, "third"); err == nil || !strings.Contains(err.Error(), `no split "third"`) {
		t.Errorf("an unknown split: %v", err)
	}
}

func TestStatusOfAWholeSplit(t *testing.T) {
	if got := (Status{Count: 50000, Official: 50000, unit: "images"}).String(); got != "50000 images" {
		t.Errorf("%q", got)
	}
}

func statusLine(s Status, dir string) string {
	line := fmt.Sprintf("%s %s %s %d/%d missing %v: %s", s.Key, s.Split, s.Folder, s.Count, s.Official, s.Missing(), s)
	return strings.ReplaceAll(line, dir, "DIR")
}
