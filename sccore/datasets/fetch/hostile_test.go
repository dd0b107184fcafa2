package fetch

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFirstDigestCounts: where no digest is published, content that differs from the first fetch is refused.
func TestFirstDigestCounts(t *testing.T) {
	archives, dir := tinyArchives(t), t.TempDir()
	url, _ := mirror(t, archives)
	// A page in place of an archive is no first fetch.
	usual := archives["SPair-71k.tar.gz"]
	archives["SPair-71k.tar.gz"] = []byte("<html>please log in</html>")
	d := tiny("spair", archives)
	for range 2 {
		err := fetchAll(t.Context(), dir, Options{BaseURL: url}, d)
		if fmt.Sprint(err) != dir+"/spair.partial/SPair-71k.tar.gz: gzip: invalid header" {
			t.Error(err)
		}
	}
	archives["SPair-71k.tar.gz"] = usual
	if err := fetchAll(t.Context(), dir, Options{BaseURL: url}, d); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, digests)); err != nil || !strings.HasSuffix(string(content), "  SPair-71k.tar.gz\n") {
		t.Errorf("recorded %q, %v", content, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "SPair-71k")); err != nil {
		t.Fatal(err)
	}
	archives["SPair-71k.tar.gz"] = slices.Concat(usual, []byte("x"))
	err := fetchAll(t.Context(), dir, Options{BaseURL: url}, d)
	if err == nil || !strings.Contains(err.Error(), ": SHA-256 digest ") || !strings.HasSuffix(err.Error(), digests+" has the digest of the first fetch)") {
		t.Error(err)
	}
	delete(archives, "SPair-71k.tar.gz")
	if err := fetchAll(t.Context(), dir, Options{BaseURL: url}, d); err == nil || strings.Contains(err.Error(), "first fetch") {
		t.Errorf("an archive that is not there: %v", err)
	}
	archives["SPair-71k.tar.gz"] = usual
	if err := fetchAll(t.Context(), dir, Options{BaseURL: url}, d); err != nil {
		t.Error(err)
	}
}

func TestHostileZips(t *testing.T) {
	link := func() []byte {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		header := &zip.FileHeader{Name: "DAVIS/link"}
		header.SetMode(fs.ModeSymlink | 0o777)
		file, err := w.CreateHeader(header)
		if err == nil {
			_, err = io.WriteString(file, "/etc/passwd")
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	lying := zipped(t, "DAVIS/x", "much more than it says")
	claim := bytes.LastIndex(lying, []byte("PK\x01\x02")) + 24 // The size in the directory.
	lying[claim] = 3
	broken := zipped(t, "DAVIS/x", strings.Repeat("damaged", 9))
	broken[40] ^= 1
	maxEntries = 5
	defer func() { maxEntries = 1 << 18 }()
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"traversal": {zipped(t, "DAVIS/../../evil", "x"), `"DAVIS/../../evil" leads out of the folder`},
		"absolute":  {zipped(t, "/evil", "x"), `"/evil" leads out of the folder`},
		"link":      {link(), `"DAVIS/link" is neither a file nor a folder`},
		"twice":     {zipped(t, "DAVIS/x", "1", "DAVIS/./x", "2"), `"DAVIS/./x": is there twice`},
		"bytes":     {zipped(t, "DAVIS/x", strings.Repeat("x", 3<<20)), `with "DAVIS/x" it unpacks to more than 2097152 bytes`},
		"entries":   {zipped(t, "1", "", "2", "", "3", "", "4", "", "5", "", "6", ""), "has more than 5 files and folders"},
		"another":   {zipped(t, "DAVIS2018/x", "1"), "has no DAVIS"},
		"no zip":    {[]byte("<html>"), "zip: not a valid zip file"},
		"lying":     {lying, `"DAVIS/x": zip: not a valid zip file`},
		"damaged":   {broken, `"DAVIS/x": `},
	} {
		t.Run(name, func(t *testing.T) {
			dir, archives := t.TempDir(), map[string][]byte{"DAVIS-2017-trainval-480p.zip": test.content}
			url, _ := mirror(t, archives)
			err := fetchAll(t.Context(), dir, Options{BaseURL: url}, tiny("davis", archives))
			if want := dir + "/davis.partial/DAVIS-2017-trainval-480p.zip: " + test.want; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error\n\t%v, want\n\t%s", err, want)
			}
			if left := filesBelow(t, dir); !slices.Equal(left, []string{"davis.partial/DAVIS-2017-trainval-480p.zip"}) {
				t.Errorf("left %v", left)
			}
		})
	}
}

// TestAFullDiskIsSeenAhead: nothing is asked for, and what an interrupted call has left counts.
func TestAFullDiskIsSeenAhead(t *testing.T) {
	archives := tinyArchives(t)
	url, requested := mirror(t, archives)
	defer func() { freeBytes = Free }()
	dir := filepath.Join(t.TempDir(), "new")
	davis, ade := tiny("davis", archives), tiny("ade20k", archives)
	davis.Archives[0].Size, ade.Archives[0].Size = 5<<20, 3<<20
	const needed = 7 << 20 // Both unpacked, and the larger archive.
	freeBytes = func(string) (int64, error) { return needed - 1, nil }
	err := fetchAll(t.Context(), dir, Options{BaseURL: url}, davis, ade)
	if fmt.Sprint(err) != dir+" needs 7.3 MB of disk, 7.3 MB are free" || len(*requested) > 0 {
		t.Errorf("%v, requests %v", err, *requested)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("made a folder for nothing")
	}
	freeBytes = func(string) (int64, error) { return needed - 4, nil }
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "davis.partial"), 0o777), os.WriteFile(filepath.Join(dir, "davis.partial/part"), []byte("1234"), 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := fetchAll(t.Context(), dir, Options{BaseURL: url}, davis, ade); err != nil {
		t.Error(err)
	}
	if free, err := Free(filepath.Join(dir, "not/there")); err != nil || free <= 0 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
}

// TestFetchFromAServerThatDoesNotEnd: neither a length that is too large nor one that is not sent fills the disk.
func TestFetchFromAServerThatDoesNotEnd(t *testing.T) {
	const most = 9 << 13
	c := small(nil)
	c.Archives[0].Size = 1 << 16
	for _, length := range []string{"", "2600000000"} {
		endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			for range 1 << 10 {
				if _, err := w.Write(make([]byte, 1<<12)); err != nil {
					return
				}
			}
		}))
		dir := t.TempDir()
		err := fetchAll(t.Context(), dir, Options{BaseURL: endless.URL}, c)
		endless.Close()
		if err == nil || !strings.HasPrefix(err.Error(), endless.URL) || strings.Contains(err.Error(), "\n") {
			t.Errorf("length %q: error %v", length, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "cifar10.partial/cifar-10-binary.tar.gz.part")); err == nil && info.Size() > most+1 {
			t.Errorf("length %q: %d bytes were kept", length, info.Size())
		}
	}
}

// A full disk, on systems with such a device; elsewhere a folder in place of the file.
func TestFetchOntoAFullDisk(t *testing.T) {
	content := tarred(t, wholeArchive())
	c := small(content)
	dir := t.TempDir()
	part := filepath.Join(dir, "cifar10.partial/cifar-10-binary.tar.gz.part")
	if err := os.MkdirAll(filepath.Dir(part), 0o777); err != nil {
		t.Fatal(err)
	}
	want := "write DIR/cifar10.partial/cifar-10-binary.tar.gz.part: no space left on device"
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := os.Symlink("/dev/full", part); err != nil {
			t.Fatal(err)
		}
	} else {
		want = "open DIR/cifar10.partial/cifar-10-binary.tar.gz.part: is a directory"
		if err := os.Mkdir(part, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := fetchFrom(t, c, &server{content: content}, dir); err != want {
		t.Errorf("error %s, want %s", err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "cifar10/cifar-10-batches-bin")); err == nil {
		t.Error("something was unpacked")
	}
}
