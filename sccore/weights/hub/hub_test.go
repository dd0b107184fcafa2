package hub

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/progress"
)

const commit = "2439f60ef33a0d46d85da5001d52aeda5b00ce9f"

// fakeHub behaves as the Hub: it lists repositories with digests, redirects large files to another address, wants a token for gated ones, and can break off.
type fakeHub struct {
	licence  any
	files    map[string]string // Content by name; .safetensors files are kept by Git LFS.
	gated    bool
	wrong    bool   // The listed digests do not fit the content.
	cutAt    int    // The first answer with a large file breaks off there.
	cdn      string // The address of another server that large files are redirected to; empty for this one.
	mu       sync.Mutex
	requests []string
	tokens   []string // What the requests of large files gave.
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r.URL.Path+" "+r.Header.Get("Range"))
	path := r.URL.Path
	if h.gated && !strings.HasPrefix(path, "/cdn/") && r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, `{"error":"Access to model is restricted"}`, http.StatusUnauthorized)
		return
	}
	if rest, ok := strings.CutPrefix(path, "/api/models/owner/vit/revision/"); ok && (rest == "main" || rest == "v1/a") {
		h.list(w)
		return
	}
	if name, ok := strings.CutPrefix(path, "/owner/vit/resolve/"+commit+"/"); ok && h.files[name] != "" {
		if filepath.Ext(name) == ".safetensors" {
			http.Redirect(w, r, h.cdn+"/cdn/"+name, http.StatusFound)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(h.files[name]))
		return
	}
	name, ok := strings.CutPrefix(path, "/cdn/")
	if !ok {
		http.Error(w, `{"error":"Repository not found"}`, http.StatusNotFound)
		return
	}
	h.tokens = append(h.tokens, r.Header.Get("Authorization"))
	w.Header().Set("ETag", `"one"`)
	if h.cutAt > 0 {
		w.Header().Set("Content-Length", fmt.Sprint(len(h.files[name])))
		w.Write([]byte(h.files[name][:h.cutAt]))
		h.cutAt = 0
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(h.files[name]))
}

// list answers with the repository's files.
func (h *fakeHub) list(w http.ResponseWriter) {
	siblings := []map[string]any{}
	for name, content := range h.files {
		git := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
		file := map[string]any{"rfilename": name, "size": len(content), "blobId": hex.EncodeToString(git[:])}
		if filepath.Ext(name) == ".safetensors" {
			digest := sha256.Sum256([]byte(content))
			if h.wrong {
				digest[0]++
			}
			file["lfs"] = map[string]any{"sha256": hex.EncodeToString(digest[:]), "size": len(content), "pointerSize": 134}
		}
		siblings = append(siblings, file)
	}
	json.NewEncoder(w).Encode(map[string]any{"id": "owner/vit", "sha": commit, "siblings": siblings, "cardData": map[string]any{"license": h.licence}})
}

// start serves the hub and gives the process a new home. It returns the cache's folder of the repository.
func (h *fakeHub) start(t *testing.T) (folder string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	home := t.TempDir()
	for key, value := range map[string]string{
		"HF_ENDPOINT": server.URL, "HF_HOME": home, "HF_HUB_CACHE": "", "HF_TOKEN": "", "HF_TOKEN_PATH": "", "HF_HUB_OFFLINE": "",
	} {
		t.Setenv(key, value)
	}
	return filepath.Join(home, "hub", "models--owner--vit")
}

func small() *fakeHub {
	return &fakeHub{licence: "apache-2.0", files: map[string]string{"model.safetensors": strings.Repeat("weights ", 1000), "config.json": "{}", "README.md": "# A model"}}
}

func TestLocateDownloadsOnceIntoTheSharedCache(t *testing.T) {
	h := small()
	folder := h.start(t)
	var said, bars []string
	watch := Watch{
		Say: func(line string) { said = append(said, line) },
		Bar: func(title string, total int) progress.Bar {
			bars = append(bars, title)
			return progress.Discard
		},
	}
	for _, name := range []string{"owner/vit", "owner/vit@main", "owner/vit@v1/a", folder, filepath.Join(folder, "snapshots", commit)} {
		path, err := Locate(t.Context(), name, watch)
		if err != nil || path != filepath.Join(folder, "snapshots", commit, "model.safetensors") {
			t.Fatalf("%s: %s, %v", name, path, err)
		}
		content, err := os.ReadFile(path)
		if err != nil || string(content) != h.files["model.safetensors"] {
			t.Fatalf("%s: %d bytes, %v", name, len(content), err)
		}
		if link, err := os.Readlink(path); err != nil || !strings.HasPrefix(link, filepath.Join("..", "..", "blobs")) {
			t.Errorf("%s: links to %s, %v, want a blob as huggingface_hub", name, link, err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "config.json")); err != nil {
			t.Error(err)
		}
	}
	if len(said) != 1 || said[0] != "owner/vit: the licence is apache-2.0" || len(bars) != 2 {
		t.Errorf("said %q, bars %q", said, bars)
	}
	downloads := 0
	for _, request := range h.requests {
		if strings.HasPrefix(request, "/cdn/") {
			downloads++
		}
	}
	if downloads != 1 {
		t.Errorf("%d downloads, want 1: %q", downloads, h.requests)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	before := len(h.requests)
	for name, want := range map[string]string{"owner/vit": "", "owner/vit@" + commit: "", "owner/other": "has no revision main, and HF_HUB_OFFLINE is set"} {
		if _, err := Locate(t.Context(), name, Watch{}); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("offline, %s: %v, want %q", name, err, want)
		}
	}
	if len(h.requests) != before {
		t.Error("it asked the Hub although it is offline")
	}
}

// TestLicences: a card of a model has one or several.
func TestLicences(t *testing.T) {
	for _, test := range []struct {
		licence any
		want    string
	}{{[]string{"mit", "apache-2.0"}, "mit apache-2.0"}, {nil, "not stated"}, {"", "not stated"}} {
		h, said := &fakeHub{licence: test.licence, files: small().files}, ""
		h.start(t)
		if _, err := Locate(t.Context(), "owner/vit", Watch{Say: func(line string) { said += line }}); err != nil || said != "owner/vit: the licence is "+test.want {
			t.Errorf("%v: %q, %v", test.licence, said, err)
		}
	}
}

func TestLocateReadsShards(t *testing.T) {
	h := &fakeHub{files: map[string]string{
		"model.safetensors.index.json":     `{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`,
		"model-00001-of-00002.safetensors": "first", "model-00002-of-00002.safetensors": "second",
	}}
	h.start(t)
	path, err := Locate(t.Context(), "owner/vit", Watch{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range h.files {
		if content, err := os.ReadFile(filepath.Join(filepath.Dir(path), name)); err != nil || string(content) != want {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
}

func TestLocateResumes(t *testing.T) {
	h := small()
	h.cutAt = 3000
	h.start(t)
	if _, err := Locate(t.Context(), "owner/vit", Watch{}); err == nil || !strings.Contains(err.Error(), "resumes") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	path, err := Locate(t.Context(), "owner/vit", Watch{})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(content, []byte(h.files["model.safetensors"])) {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	if last := h.requests[len(h.requests)-1]; !strings.HasSuffix(last, "bytes=3000-") {
		t.Errorf("the last request is %q, want the rest alone", last)
	}
}

func TestLocateGatedWithAToken(t *testing.T) {
	h := small()
	h.gated = true
	h.start(t)
	if _, err := Locate(t.Context(), "owner/vit", Watch{}); err == nil || !strings.Contains(err.Error(), "HF_TOKEN") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("HF_HOME"), "token"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Locate(t.Context(), "owner/vit", Watch{}); err != nil {
		t.Error("with the token of a file:", err)
	}
}

// TestATokenIsForTheHubAlone: another server does not get it, not even another port of the same host, and a file beside another cache is no token.
func TestATokenIsForTheHubAlone(t *testing.T) {
	h := small()
	h.start(t)
	other := httptest.NewServer(h)
	defer other.Close()
	h.cdn = other.URL
	t.Setenv("HF_TOKEN", "secret")
	if _, err := Locate(t.Context(), "owner/vit", Watch{}); err != nil {
		t.Fatal(err)
	}
	if len(h.tokens) != 1 || h.tokens[0] != "" {
		t.Errorf("the other server got %q", h.tokens)
	}
	t.Setenv("HF_TOKEN", "")
	scratch := t.TempDir()
	t.Setenv("HF_HUB_CACHE", filepath.Join(scratch, "hub"))
	if err := os.WriteFile(filepath.Join(scratch, "token"), []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := token(); got != "" {
		t.Errorf("token %q of a file beside HF_HUB_CACHE", got)
	}
}

// TestASilentHubIsLikeNone: the cache counts where the Hub does not answer.
func TestASilentHubIsLikeNone(t *testing.T) {
	h := small()
	h.start(t)
	first, err := Locate(t.Context(), "owner/vit", Watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer func(before time.Duration) { infoLimit = before }(infoLimit)
	infoLimit = 50 * time.Millisecond
	release := make(chan bool)
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	t.Setenv("HF_ENDPOINT", silent.URL)
	said := ""
	if path, err := Locate(t.Context(), "owner/vit", Watch{Say: func(line string) { said = line }}); err != nil || path != first || !strings.Contains(said, "cannot be reached") {
		t.Errorf("%s, %v, said %q", path, err, said)
	}
	before := len(h.requests)
	if path, err := Locate(t.Context(), "owner/vit", Watch{Cached: true}); err != nil || path != first || len(h.requests) != before {
		t.Errorf("from the cache alone: %s, %v", path, err)
	}
}

// TestAMistypedPathIsNoRepository: a folder of the first part is here.
func TestAMistypedPathIsNoRepository(t *testing.T) {
	h := small()
	h.start(t)
	t.Chdir(t.TempDir())
	if err := os.Mkdir("runs", 0o777); err != nil {
		t.Fatal(err)
	}
	if path, err := Locate(t.Context(), "runs/encoder", Watch{}); err != nil || path != "runs/encoder" || len(h.requests) > 0 {
		t.Errorf("%s, %v, requests %q", path, err, h.requests)
	}
}

func TestLocateAFileOfARepository(t *testing.T) {
	h := &fakeHub{files: map[string]string{"some models/vit+x/teacher.ckpt": "weights", "some models/vit+x/config.json": "{}", "config.json": "[]"}}
	folder := h.start(t)
	for range 2 {
		path, err := Locate(t.Context(), "hf://owner/vit@main/some models/vit+x/teacher.ckpt", Watch{})
		if err != nil || path != filepath.Join(folder, "snapshots", commit, "some models", "vit+x", "teacher.ckpt") {
			t.Fatal(path, err)
		}
		for name, want := range map[string]string{"teacher.ckpt": "weights", "config.json": "{}"} {
			if content, err := os.ReadFile(filepath.Join(filepath.Dir(path), name)); err != nil || string(content) != want {
				t.Errorf("%s: %q, %v", name, content, err)
			}
		}
		t.Setenv("HF_HUB_OFFLINE", "1")
	}
}

func TestLocateErrors(t *testing.T) {
	h := small()
	folder := h.start(t)
	empty := t.TempDir()
	for name, want := range map[string]string{
		"owner/absent":         "no such repository",
		"owner/vit@v9":         "no such repository or revision",
		"owner/vit@../../x":    "leads out of",
		"hf://owner/vit/../x":  "leads out of",
		"hf://owner/vit/y.pth": "the repository has no y.pth",
		empty:                  "the folder has none of model.safetensors",
	} {
		if _, err := Locate(t.Context(), name, Watch{}); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	trained := filepath.Join(t.TempDir(), "encoder.safetensors")
	if err := os.WriteFile(trained, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if path, err := Locate(t.Context(), filepath.Dir(trained), Watch{}); err != nil || path != trained {
		t.Errorf("the folder of a training: %s, %v", path, err)
	}
	for _, name := range []string{"weights/absent.pth", "/absent/vit", "vit", "a/b/c"} { // No names of repositories.
		if path, err := Locate(t.Context(), name, Watch{}); err != nil || path != name {
			t.Errorf("%s: %s, %v", name, path, err)
		}
	}
	h.wrong = true
	if _, err := Locate(t.Context(), "owner/vit", Watch{}); err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("a wrong digest: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "snapshots", commit, "*.safetensors")); len(left) > 0 {
		t.Errorf("content with a wrong digest is in %v", left)
	}
	delete(h.files, "model.safetensors")
	if _, err := Locate(t.Context(), "owner/vit", Watch{}); err == nil || !strings.Contains(err.Error(), "none of model.safetensors") {
		t.Error(err)
	}
}

func TestLocateWithoutTheNetworkTakesTheCache(t *testing.T) {
	h := small()
	h.start(t)
	first, err := Locate(t.Context(), "owner/vit", Watch{})
	if err != nil {
		t.Fatal(err)
	}
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(busy.Close)
	for _, endpoint := range []string{"http://127.0.0.1:1", busy.URL} {
		t.Setenv("HF_ENDPOINT", endpoint)
		if path, err := Locate(t.Context(), "owner/vit", Watch{}); err != nil || path != first {
			t.Errorf("%s, %v, want what the cache has", path, err)
		}
	}
	if _, err := Locate(t.Context(), "owner/other", Watch{}); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want one line", err)
	}
	if _, err := os.Stat(filepath.Join(os.Getenv("HF_HOME"), "hub", "models--owner--other")); err == nil {
		t.Error("a repository that was not found has a folder in the cache")
	}
}

func TestPublishedCheckpointsAreNamed(t *testing.T) {
	all := Published()
	models := map[string]int{}
	for _, p := range all {
		models[p.Model]++
		if !strings.HasPrefix(p.Where, "https://") && !repositoryName.MatchString(p.Where) && !fileName.MatchString(p.Where) || p.Encoder == "" || tried[p.Tried] == "" {
			t.Errorf("%+v", p)
		}
	}
	for _, model := range []string{"DINO", "iBOT", "Mugs", "Leopart"} {
		if models[model] < 2 {
			t.Errorf("%d checkpoints of %s", models[model], model)
		}
	}
}

func TestSettingsOfWeightsAreLocated(t *testing.T) {
	h := small()
	folder := h.start(t)
	path := filepath.Join(folder, "snapshots", commit, "model.safetensors")
	given := []string{"init=owner/vit", "weights.mine=owner/vit@main", "steps=3", "weights.x=a{seed}.pth", "dino.weights=owner/vit", "init="}
	located, err := Settings(t.Context(), given, Watch{})
	if want := []string{"init=" + path, "weights.mine=" + path, "steps=3", "weights.x=a{seed}.pth", "dino.weights=" + path, "init="}; err != nil || !slices.Equal(located, want) {
		t.Errorf("%q, %v, want %q", located, err, want)
	}
	if _, err := Settings(t.Context(), []string{"teacher=owner/absent"}, Watch{}); err == nil || !strings.HasPrefix(err.Error(), "--set teacher: owner/absent: ") {
		t.Error(err)
	}
}
