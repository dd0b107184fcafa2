package datasets

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImagesAreNamedInOneGrammar: files, folders, patterns and lists, alone and together, as every verb takes them.
func TestImagesAreNamedInOneGrammar(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"photos/cat/0.png": "p", "photos/cat/1.JPG": "p", "photos/dog/0.png": "p", "photos/notes.md": "words", "photos/.hidden.png": "p",
		"list.txt": "\ufeffphotos/dog/0.png\r\n\nmissing.png\n", "names": "photos/cat/0.png", "photo": "\xff\xd8\x00", "empty.txt": "\n", "binary.txt": "\n\n\x00\n",
		"other/a[1].png": "p", "more/cat.png": "p", "more/words/only.txt": "words",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	all := "photos/cat/0.png photos/cat/1.JPG photos/dog/0.png"
	for inputs, want := range map[string]string{
		"photos": all, "photos/": all, "photos/*": all, "photos/*/0.png": "photos/cat/0.png photos/dog/0.png", "photos/dog photos/cat/0.png": "photos/dog/0.png photos/cat/0.png",
		"list.txt": "photos/dog/0.png missing.png", "names photo": "photos/cat/0.png photo", "other/a[1].png": "other/a[1].png", "none.png photo": "none.png photo",
	} {
		if got, _, err := FindImages(strings.Fields(inputs)...); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %q", inputs, got, err, want)
		}
	}
	if err := os.Symlink("nowhere", "photos/broken.png"); err != nil {
		t.Fatal(err)
	}
	if got, skipped, err := FindImages("photos/*.png", "photos/dog"); err != nil || len(got) != 1 || len(skipped) != 1 || skipped[0].File != "photos/broken.png" {
		t.Errorf("a pattern of a broken link: %q, %v, %v", got, skipped, err)
	}
	if got, _, err := FindImages("photos/broken.png"); err != nil || len(got) != 1 {
		t.Errorf("a broken link: %q, %v", got, err)
	}
	if err := os.Remove("photos/broken.png"); err != nil {
		t.Fatal(err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	go func() { fmt.Fprint(to, strings.Repeat("photos/cat/0.png\n", 100)); to.Close() }()
	if got, _, err := FindImages(fmt.Sprintf("/dev/fd/%d", from.Fd())); err != nil || len(got) != 100 {
		t.Errorf("a list of 100 from a pipe: %d, %v", len(got), err)
	}
	if _, skipped, _ := FindImages("photos/*"); len(skipped) != 1 || skipped[0] != (Skipped{"photos/notes.md", notImage}) {
		t.Errorf("skipped %v", skipped)
	}
	if got, skipped, err := FindImages("more/*"); err != nil || strings.Join(got, " ") != "more/cat.png" || len(skipped) != 1 || skipped[0] != (Skipped{"more/words", "contains no .jpg, .jpeg or .png file"}) {
		t.Errorf("a pattern that matches a folder without images: %q, %v, %v", got, skipped, err)
	}
	for input, want := range map[string]string{
		"none": "none: no such file", "empty.txt": "empty.txt: lists no images", "binary.txt": "binary.txt: line 3 is not a path",
	} {
		if _, _, err := FindImages("photos", input); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", input, err, want)
		}
	}

	// Folders of classes have the labels of the folder above, and what is named twice counts once.
	whole, err := OpenImages("photos")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := OpenImages("photos/dog", "photos/cat", "photos/*/0.png", "list.txt")
	if err != nil || parts.Identity != whole.Identity || !slices.Equal(parts.files, whole.files) {
		t.Errorf("%q, %v, want %q", parts.files, err, whole.files)
	}
	if !slices.ContainsFunc(parts.Skipped, func(s Skipped) bool { return filepath.Base(s.File) == "missing.png" }) {
		t.Errorf("skipped %v", parts.Skipped)
	}
	if labels, names, err := parts.Labels(); err != nil || !slices.Equal(labels, []int32{0, 0, 1}) || !slices.Equal(names, []string{"cat", "dog"}) {
		t.Errorf("%v of %v, %v", labels, names, err)
	}
	if one, err := OpenImages("photos/cat/0.png"); err != nil || one.Name != "cat" || one.File(0) != "0.png" {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := parts.LabelsOf([]string{"cat"}); err == nil || !strings.Contains(err.Error(), "dog/0.png: is of no class that trains") {
		t.Error(err)
	}
}
