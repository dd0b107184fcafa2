package fetch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/datasets"
)

// small is CIFAR-10 with a few images, whose archive has the digest of content.
func small(content []byte) Dataset {
	d := Table[0]
	d.Archives = slices.Clone(d.Archives)
	d.Archives[0].Digest = digestOf(content)
	d.found = func(dir string) []datasets.Status {
		found := datasets.Available(dir, "cifar10")
		for i, official := range []int{10, 3} {
			found[i].Official = official
		}
		return found
	}
	return d
}

// wholeArchive returns the content of the official archive of [small].
func wholeArchive() []tar.Header {
	headers := []tar.Header{{Name: "cifar-10-batches-bin/", Typeflag: tar.TypeDir}}
	for i := range 5 {
		headers = append(headers, tar.Header{Name: fmt.Sprintf("cifar-10-batches-bin/data_batch_%d.bin", i+1), Size: 2 * 3073})
	}
	return append(headers, tar.Header{Name: "cifar-10-batches-bin/test_batch.bin", Size: 3 * 3073})
}

// tarred writes an archive in which every file holds records of CIFAR-10, cut to the header's size.
func tarred(t testing.TB, headers []tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	zipper := gzip.NewWriter(&out)
	w := tar.NewWriter(zipper)
	content := make([]byte, 4*3073)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		if i%3073 != 0 { // The label: all are of the first class.
			content[i] = byte(random.Uint32())
		}
	}
	for _, header := range headers {
		header.Mode = 0o644
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content[:header.Size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipper.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func digestOf(content []byte) string {
	digest := md5.Sum(content)
	return hex.EncodeToString(digest[:])
}

// server serves one archive and can misbehave.
type server struct {
	content   []byte
	version   string // Its ETag.
	cutAt     int    // Where the connection breaks, in the bytes of one answer; 0 for nowhere.
	silentAt  int    // Where it stops sending, likewise.
	noRanges  bool
	status    int // An error to answer; 0 for none.
	mu        sync.Mutex
	requested []string // The Range of each request.
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requested = append(s.requested, r.URL.Path+" "+r.Header.Get("Range"))
	s.mu.Unlock()
	if s.status != 0 {
		http.Error(w, "no", s.status)
		return
	}
	if s.version != "" {
		w.Header().Set("ETag", s.version)
	}
	if s.noRanges {
		r.Header.Del("Range")
	}
	if limit := max(s.cutAt, s.silentAt); limit > 0 {
		w = &shortWriter{ResponseWriter: w, left: limit}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.content))
	if s.silentAt > 0 {
		w.(*shortWriter).ResponseWriter.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// shortWriter passes on a limited number of bytes.
type shortWriter struct {
	http.ResponseWriter
	left int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if _, err := w.ResponseWriter.Write(p[:n]); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, errors.New("cut")
	}
	return n, nil
}

// fetchFrom starts the server, fetches into dir, and returns the error with DIR and URL in place of the folder and the server.
func fetchFrom(t *testing.T, c Dataset, s *server, dir string) string {
	t.Helper()
	web := httptest.NewServer(s)
	defer web.Close()
	err := fetchAll(t.Context(), dir, Options{BaseURL: web.URL + "/kriz"}, c)
	return strings.NewReplacer(dir, "DIR", web.URL, "URL").Replace(fmt.Sprint(err))
}

// leftIn lists the folder of the dataset and the folder of what is not complete.
func leftIn(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	for _, folder := range []string{"cifar10", "cifar10.partial"} {
		entries, err := os.ReadDir(filepath.Join(dir, folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
	}
	return strings.Join(names, " ")
}

func TestFetch(t *testing.T) {
	content := tarred(t, wholeArchive())
	c := small(content)
	s, dir := &server{content: content}, filepath.Join(t.TempDir(), "new")
	if err := fetchFrom(t, c, s, dir); err != "<nil>" {
		t.Fatal(err)
	}
	if left := leftIn(t, dir); left != "cifar-10-batches-bin" {
		t.Errorf("left %s", left)
	}
	for split, want := range map[datasets.Split]int{datasets.Train: 10, datasets.Test: 3} {
		if im, err := datasets.CIFAR10(dir, split); err != nil || im.Len() != want {
			t.Errorf("%s: %v, want %d images", split, err, want)
		}
	}
	// A complete dataset is not downloaded again.
	if err := fetchFrom(t, c, s, dir); err != "<nil>" || strings.Join(s.requested, ", ") != "/kriz/cifar-10-binary.tar.gz " {
		t.Errorf("%v after the requests %q", err, s.requested)
	}
	// An incomplete dataset is left alone.
	if err := os.Remove(filepath.Join(dir, "cifar10/cifar-10-batches-bin/data_batch_5.bin")); err != nil {
		t.Fatal(err)
	}
	if err := fetchFrom(t, c, s, dir); err != "DIR/cifar10/cifar-10-batches-bin exists but is incomplete (8 of 10 train images): move it away to fetch it" {
		t.Error(err)
	}
}

func TestFetchReportsProgress(t *testing.T) {
	content := tarred(t, wholeArchive())
	c := small(content)
	web := httptest.NewServer(&server{content: content})
	defer web.Close()
	var last, lastTotal int64
	err := fetchAll(t.Context(), t.TempDir(), Options{BaseURL: web.URL, Progress: func(what string, done, total int64) {
		if what != "cifar-10-binary.tar.gz" {
			if what != "unpacking cifar-10-binary.tar.gz" {
				t.Errorf("progress of %s", what)
			}
			return
		}
		if done < last {
			t.Errorf("from %d back to %d", last, done)
		}
		last, lastTotal = done, total
	}}, c)
	if err != nil || last != int64(len(content)) || lastTotal != last {
		t.Errorf("ended at %d of %d, want %d: %v", last, lastTotal, len(content), err)
	}
}

func TestFetchGoesOnWhereItStopped(t *testing.T) {
	content := tarred(t, wholeArchive())
	half := len(content) / 2
	for name, test := range map[string]struct {
		then      *server
		requested string
	}{
		"ranges":           {&server{content: content, version: `"one"`}, fmt.Sprintf("bytes=%d-", half)},
		"no ranges":        {&server{content: content, version: `"one"`, noRanges: true}, fmt.Sprintf("bytes=%d-", half)},
		"another version":  {&server{content: content, version: `"two"`}, fmt.Sprintf("bytes=%d-", half)},
		"a shorter one":    {&server{content: content[:half-9], version: `"one"`}, fmt.Sprintf("bytes=%d-", half)},
		"a rename to go":   {&server{content: content[:half], version: `"one"`}, fmt.Sprintf("bytes=%d-", half)},
		"no version known": {&server{content: content}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := small(test.then.content), t.TempDir()
			first := &server{content: content, version: `"one"`, cutAt: half}
			if name == "another version" {
				first.content = bytes.Repeat([]byte("old"), len(content)/3)
			}
			if name == "no version known" {
				first.version = ""
			}
			want := fmt.Sprintf("URL/kriz/cifar-10-binary.tar.gz: stopped at byte %d, the next call resumes there: unexpected EOF", half)
			if err := fetchFrom(t, c, first, dir); err != want {
				t.Fatalf("cut short: %s, want %s", err, want)
			}
			if left := leftIn(t, dir); left != "cifar-10-binary.tar.gz.part cifar-10-binary.tar.gz.version" {
				t.Errorf("cut short it leaves %s", left)
			}
			err := fetchFrom(t, c, test.then, dir)
			if got := strings.TrimPrefix(test.then.requested[0], "/kriz/cifar-10-binary.tar.gz "); got != test.requested {
				t.Errorf("asked for %q, want %q", got, test.requested)
			}
			if len(test.then.content) == len(content) {
				if left := leftIn(t, dir); err != "<nil>" || left != "cifar-10-batches-bin" {
					t.Errorf("%s, and left %s", err, left)
				}
			} else if !strings.HasPrefix(err, "DIR/cifar10.partial/cifar-10-binary.tar.gz: ") || !strings.HasSuffix(err, "unexpected EOF") {
				// A truncated archive with the right digest downloads completely but does not unpack.
				t.Error(err)
			}
		})
	}
}

func TestFetchFailures(t *testing.T) {
	content := tarred(t, wholeArchive())
	part := tarred(t, wholeArchive()[:4])
	with := func(headers ...tar.Header) []byte { return tarred(t, append(wholeArchive(), headers...)) }
	const archive = "DIR/cifar10.partial/cifar-10-binary.tar.gz"
	for name, test := range map[string]struct {
		server *server
		md5    string // If empty, the MD5 of the content.
		want   string // How the error begins.
		left   string // What lies in the folder afterwards.
	}{
		"not found":    {&server{status: 404}, "", "URL/kriz/cifar-10-binary.tar.gz: 404 Not Found", ""},
		"wrong digest": {&server{content: content}, "c32a1d4ab5d03f1284b67883e8d87530", archive + ": MD5 digest " + digestOf(content) + ", want c32a1d4ab5d03f1284b67883e8d87530: removed", ""},
		"no archive":   {&server{content: []byte("<html>")}, "", archive + ": unexpected EOF", "cifar-10-binary.tar.gz"},
		"traversal":    {&server{content: with(tar.Header{Name: "cifar-10-batches-bin/../../evil"})}, "", archive + `: "cifar-10-batches-bin/../../evil" leads out of the folder`, "cifar-10-binary.tar.gz"},
		"absolute":     {&server{content: with(tar.Header{Name: "/evil"})}, "", archive + `: "/evil" leads out of the folder`, "cifar-10-binary.tar.gz"},
		"link":         {&server{content: with(tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/"})}, "", archive + `: "x" is neither a file nor a folder`, "cifar-10-binary.tar.gz"},
		"hard link":    {&server{content: with(tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "y"})}, "", archive + `: "x" is neither a file nor a folder`, "cifar-10-binary.tar.gz"},
		"same name":    {&server{content: with(wholeArchive()[1])}, "", archive + `: "cifar-10-batches-bin/data_batch_1.bin": `, "cifar-10-binary.tar.gz"},
		"incomplete":   {&server{content: part}, "", "DIR/cifar10.partial does not hold CIFAR-10 (6 of 10 train images): remove it to fetch again", "cifar10"},
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := small(test.server.content), filepath.Join(t.TempDir(), "new")
			if test.md5 != "" {
				c.Archives[0].Digest = test.md5
			}
			err := fetchFrom(t, c, test.server, dir)
			if !strings.HasPrefix(err, test.want) || strings.Contains(err, "\n") {
				t.Errorf("error\n\t%s, want\n\t%s", err, test.want)
			}
			if left := leftIn(t, dir); left != test.left {
				t.Errorf("left %q, want %q", left, test.left)
			}
			outside, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, path := range outside {
				if name := filepath.Base(path); name != "cifar10.partial" {
					t.Errorf("wrote %s", path)
				}
			}
			if _, err := os.Stat(dir); test.left == "" && err == nil {
				t.Errorf("%s is left with nothing in it", dir)
			}
		})
	}
}

func TestFetchFromAServerThatFallsSilent(t *testing.T) {
	usual := stallLimit
	t.Cleanup(func() { stallLimit = usual })
	stallLimit = 50 * time.Millisecond
	content := tarred(t, wholeArchive())
	c := small(content)
	err := fetchFrom(t, c, &server{content: content, silentAt: 1000}, t.TempDir())
	if !strings.HasPrefix(err, "URL/kriz/cifar-10-binary.tar.gz: ") || !strings.HasSuffix(err, "the server has been silent for 50ms") {
		t.Error(err)
	}
}

func TestFetchIsInterrupted(t *testing.T) {
	web := httptest.NewServer(&server{content: tarred(t, wholeArchive()), silentAt: 1000})
	defer web.Close()
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	err := fetchAll(ctx, dir, Options{BaseURL: web.URL, Progress: func(_ string, done, total int64) {
		if done == 1000 {
			cancel()
		}
	}}, small(nil))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if part, err := os.ReadFile(filepath.Join(dir, "cifar10.partial/cifar-10-binary.tar.gz.part")); err != nil || len(part) != 1000 {
		t.Errorf("%d bytes are kept, want 1000: %v", len(part), err)
	}
}

func TestFetchKnowsItsDatasets(t *testing.T) {
	for _, key := range []string{"cifar", "imagenet"} { // The second needs an account.
		if err := Datasets(t.Context(), t.TempDir(), Options{}, key); fmt.Sprint(err) != fmt.Sprintf("cannot fetch dataset %q", key) {
			t.Error(err)
		}
	}
	if err := Datasets(t.Context(), "", Options{}, "cifar100"); fmt.Sprint(err) != "CIFAR-100 needs a data folder" {
		t.Error(err)
	}
	s := &server{status: 404}
	web := httptest.NewServer(s)
	defer web.Close()
	freeBytes = func(string) (int64, error) { return 1 << 50, nil }
	defer func() { freeBytes = Free }()
	for _, d := range Table {
		if d.Steps != "" {
			continue
		}
		if err := Datasets(t.Context(), t.TempDir(), Options{BaseURL: web.URL}, d.Key); err == nil {
			t.Errorf("%s came from nowhere", d.Key)
		}
	}
	want := "/cifar-10-binary.tar.gz ,/cifar-100-binary.tar.gz ,/tiny-imagenet-200.zip ,/VOCtrainval_11-May-2012.tar ,/ADEChallengeData2016.zip ," +
		"/train2017.zip ,/DAVIS-2017-trainval-480p.zip ,/SPair-71k.tar.gz "
	if got := strings.Join(s.requested, ","); got != want {
		t.Errorf("asked for %q", got)
	}
}
