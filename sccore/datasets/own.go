package datasets

import (
	"os"
	"path/filepath"
)

// FindClassFolders tells whether dir holds images of one's own: class folders under train and test, for [ReadFolder], or train.zip and test.zip of
// class folders, for [ReadZip]. ext is what follows the split's name: "" or ".zip".
func FindClassFolders(dir string) (ext string, ok bool) {
	for _, ext := range []string{"", ".zip"} {
		found := 0
		for _, split := range []Split{Train, Test} {
			if info, err := os.Stat(filepath.Join(dir, string(split)+ext)); err == nil && info.IsDir() == (ext == "") {
				found++
			}
		}
		if found == 2 {
			return ext, true
		}
	}
	return "", false
}
