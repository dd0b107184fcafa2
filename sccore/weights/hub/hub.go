// Package hub finds weights by the names that people use: a file, a folder that holds one, or a repository of the Hugging Face Hub.
//
// In go names such as facebook/dino-vits16, timm/vit_small_patch16_224.dino@REVISION or hf://OWNER/NAME@REVISION/FOLDER/FILE.pth. Out come paths of files in the cache that Python's
// huggingface_hub shares. HF_HOME and HF_HUB_CACHE move it, HF_TOKEN opens gated repositories, HF_HUB_OFFLINE=1 takes what the cache has, HF_ENDPOINT names a mirror.
package hub

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/go-huggingface/hub"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/fetch"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/weights"
)

// Watch is told about a download. The zero value is told nothing.
type Watch struct {
	Bar func(title string, total int) progress.Bar // Opens the progress bar of a file, in megabytes.
	Say func(line string)                          // Called with a repository's licence when its weights have come, and if the Hub cannot be reached.
	// Cached says that the cache alone counts, without the network.
	Cached bool
}

// repositoryName is an owner and a name, with a revision.
var repositoryName = regexp.MustCompile(`^([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w.][\w./-]*))?$`)

// fileName is the same with a file, as fsspec writes it.
var fileName = regexp.MustCompile(`^hf://([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w.][\w.-]*))?/(.+)$`)

// digestText is a SHA-1 or a SHA-256 digest, which becomes the name of a file.
var digestText = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// weightFiles are the files that a repository or folder may hold weights in, the first of them that is there counts.
var weightFiles = []string{weights.ModelFile, weights.ModelFile + ".index.json", "pytorch_model.bin"}

// Locate returns the path of the weights that name means: a file as it is, the file of weights in a folder or in a repository OWNER/NAME or OWNER/NAME@REVISION
// of the Hugging Face Hub, or the file hf://OWNER/NAME@REVISION/PATH there. A file of the Hub is downloaded unless the cache has it. A file that exists goes
// before a repository of its name. The content of each downloaded file is compared with the digest that the Hub states. The error is one line that names what
// could not be found or read.
func Locate(ctx context.Context, name string, watch Watch) (string, error) {
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		return inFolder(name)
	}
	file := ""
	match := fileName.FindStringSubmatch(name)
	if match != nil {
		file = match[3]
	} else if match = repositoryName.FindStringSubmatch(name); err == nil || match == nil ||
		slices.Contains(extensions, filepath.Ext(name)) || datasets.IsFolder(strings.Split(name, "/")[0]) { // It is a path here.
		return name, nil // Whoever reads it says what is wrong with it.
	}
	path, err := fromHub(ctx, match[1], cmp.Or(match[2], "main"), file, watch)
	if err != nil && file == "" {
		err = fmt.Errorf("no such file, and from the Hugging Face Hub: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return path, nil
}

// extensions are the extensions of files of weights.
var extensions = []string{".safetensors", ".json", ".pth", ".pt", ".bin", ".ckpt", ".tar"}

// inFolder returns the file of weights in a folder, which may be a repository's in the cache.
func inFolder(folder string) (string, error) {
	if _, err := os.Stat(filepath.Join(folder, "snapshots")); err == nil {
		return cached(folder, "main", "")
	}
	files := slices.Concat(weightFiles, []string{"encoder.safetensors"}) // The last is of a training on own images.
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(folder, file)); err == nil {
			return filepath.Join(folder, file), nil
		}
	}
	return "", fmt.Errorf("%s: the folder has none of %s", folder, strings.Join(files, ", "))
}

// home is the folder of the Hub's cache and of the user's token, as huggingface_hub chooses it.
func home() string { return cmp.Or(os.Getenv("HF_HOME"), filepath.Dir(hub.DefaultCacheDir())) }

// token returns the token of the user's account, from HF_TOKEN or from the file that "huggingface-cli login" writes.
func token() string {
	content, _ := os.ReadFile(cmp.Or(os.Getenv("HF_TOKEN_PATH"), filepath.Join(home(), "token")))
	return cmp.Or(os.Getenv("HF_TOKEN"), strings.TrimSpace(string(content)))
}

// endpoint is the address of the Hub, or of a mirror.
func endpoint() string {
	return strings.TrimSuffix(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), "/")
}

// offline reports whether HF_HUB_OFFLINE forbids the network.
func offline() bool {
	return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(os.Getenv("HF_HUB_OFFLINE")))
}

// cached returns a file that the cache has of a repository, whose folder is given, at a revision. Without a file's name it is the file of weights.
func cached(folder, revision, file string) (string, error) {
	commit, err := os.ReadFile(filepath.Join(folder, "refs", filepath.FromSlash(revision)))
	if err != nil {
		commit = []byte(revision)
	}
	snapshot := filepath.Join(folder, "snapshots", strings.TrimSpace(string(commit)))
	if _, err := os.Stat(snapshot); err != nil || len(commit) == 0 {
		return "", fmt.Errorf("the cache %s has no revision %s", folder, revision)
	}
	if file == "" {
		return inFolder(snapshot)
	}
	path := filepath.Join(snapshot, filepath.FromSlash(file))
	_, err = os.Stat(path)
	return path, err
}

// fromHub downloads what the cache lacks of a repository's weights, or of a file of it, and returns the path.
func fromHub(ctx context.Context, id, revision, file string, watch Watch) (_ string, err error) {
	defer try.Handle(&err)
	if !filepath.IsLocal(filepath.FromSlash(revision)) || file != "" && !filepath.IsLocal(filepath.FromSlash(file)) {
		return "", fmt.Errorf("revision %q or file %q leads out of the repository", revision, file)
	}
	folder := filepath.Join(cmp.Or(os.Getenv("HF_HUB_CACHE"), filepath.Join(home(), "hub")), "models--"+strings.ReplaceAll(id, "/", "--"))
	if offline() || watch.Cached {
		path, err := cached(folder, revision, file)
		if err != nil && offline() {
			err = fmt.Errorf("%w, and HF_HUB_OFFLINE is set", err)
		}
		return path, err
	}
	info, err := readInfo(ctx, id, revision)
	if unreachable := new(url.Error); errors.As(err, &unreachable) && ctx.Err() == nil {
		path, cacheErr := cached(folder, revision, file)
		if cacheErr == nil && watch.Say != nil {
			watch.Say(fmt.Sprintf("the Hugging Face Hub cannot be reached (%v): %s is what the cache has", unreachable.Err, id))
		}
		if cacheErr == nil {
			return path, nil
		}
	}
	try.E(err)
	if info.CommitHash == "" || !filepath.IsLocal(info.CommitHash) || filepath.Base(info.CommitHash) != info.CommitHash {
		return "", fmt.Errorf("the answer has no commit, %.80q", info.CommitHash)
	}
	files := lo.KeyBy(info.Siblings, func(f *hub.FileInfo) string { return f.Name })
	if at := slices.IndexFunc(weightFiles, func(name string) bool { return files[name] != nil }); file == "" && at >= 0 {
		file = weightFiles[at]
	} else if file == "" {
		return "", fmt.Errorf("the repository has none of %s; hf://%s/FILE names another", strings.Join(weightFiles, ", "), id)
	}
	try.E(os.MkdirAll(folder, 0o755))
	unlock := try.E1(filelock.Wait(ctx, filepath.Join(folder, ".semcon.lock"), nil)) // Two processes would write to one part.
	defer unlock()
	came := false
	get := func(name string) (string, error) {
		if files[name] == nil {
			return "", fmt.Errorf("the repository has no %s", name)
		}
		located, downloaded, err := getFile(ctx, id, folder, info.CommitHash, files[name], watch)
		came = came || downloaded
		return located, err
	}
	for _, name := range []string{"config.json", "preprocessor_config.json"} { // They say how to read the weights and how images are prepared.
		if name = path.Join(path.Dir(file), name); files[name] != nil {
			try.E1(get(name))
		}
	}
	located := try.E1(get(file))
	for _, shard := range try.E1(weights.Files(located))[1:] {
		try.E1(get(path.Join(path.Dir(file), filepath.Base(shard))))
	}
	if revision != info.CommitHash { // For use without the network.
		try.E(atomicfile.WriteBytes(filepath.Join(folder, "refs", filepath.FromSlash(revision)), []byte(info.CommitHash)))
	}
	if came && watch.Say != nil {
		watch.Say(fmt.Sprintf("%s: the licence is %s", id, cmp.Or(strings.Trim(fmt.Sprint(cmp.Or[any](info.CardData.License, "")), "[]"), "not stated")))
	}
	return located, nil
}

// infoLimit is the time that the Hub may take to list a repository's files. Tests shorten it.
var infoLimit = 20 * time.Second

// repoInfo is what is read of the Hub's answer on a repository.
type repoInfo struct {
	CommitHash string          `json:"sha"`
	Siblings   []*hub.FileInfo `json:"siblings"`
	CardData   struct {
		License any `json:"license"` // A name or a list of names.
	} `json:"cardData"`
}

// readInfo asks the Hub for a repository's files. A Hub that cannot be reached, or is too busy, is a [url.Error].
func readInfo(ctx context.Context, id, revision string) (info repoInfo, err error) {
	defer try.Handle(&err)
	ctx, cancel := context.WithTimeout(ctx, infoLimit)
	defer cancel()
	request := try.E1(http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/models/%s/revision/%s?blobs=true", endpoint(), id, url.PathEscape(revision)), nil))
	if token := token(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response := try.E1(fetch.Client.Do(request))
	defer response.Body.Close()
	switch status := response.StatusCode; {
	case status == http.StatusOK:
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return info, errors.New("there is no such public repository, or it is gated: accept its terms on its page and set HF_TOKEN")
	case status == http.StatusNotFound:
		return info, errors.New("there is no such repository or revision")
	case status == http.StatusTooManyRequests || status >= 500:
		return info, &url.Error{Op: "Get", URL: request.URL.String(), Err: errors.New(response.Status)}
	default:
		return info, fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, 16<<20)).Decode(&info); err != nil {
		return info, fmt.Errorf("%s: %w", request.URL, err)
	}
	return info, nil
}

// getFile puts a file of a repository into its folder of the cache, by its digest, and links to it from the folder of the commit.
func getFile(ctx context.Context, id, folder, commit string, info *hub.FileInfo, watch Watch) (link string, downloaded bool, err error) {
	defer try.Handle(&err)
	link = filepath.Join(folder, "snapshots", commit, filepath.FromSlash(info.Name))
	if _, err := os.Stat(link); err == nil {
		return link, false, nil
	}
	address := fmt.Sprintf("%s/%s/resolve/%s", endpoint(), id, commit)
	address += "/" + strings.ReplaceAll(url.PathEscape(info.Name), "%2F", "/") // Folders stay folders.
	// Git identifies a small file by the SHA-1 of its length and its content.
	file := fetch.File{Address: address, Token: token(), Most: info.Size, Want: info.BlobID, Digest: func() hash.Hash {
		digest := sha1.New()
		fmt.Fprintf(digest, "blob %d\x00", info.Size)
		return digest
	}}
	if info.LFS != nil {
		file.Want, file.Most, file.Digest = info.LFS.SHA256, info.LFS.Size, sha256.New
	}
	if !digestText.MatchString(file.Want) {
		return "", false, fmt.Errorf("%s: the Hub states no digest", info.Name)
	}
	file.Path = filepath.Join(folder, "blobs", file.Want)
	for _, needed := range []string{filepath.Dir(file.Path), filepath.Dir(link)} {
		try.E(os.MkdirAll(needed, 0o755))
	}
	if _, err := os.Stat(file.Path); errors.Is(err, fs.ErrNotExist) {
		if watch.Bar != nil {
			const megabyte = 1_000_000
			bar := watch.Bar(info.Name+" (MB)", int(file.Most/megabyte))
			defer bar.Close()
			file.Progress = func(done, _ int64) { bar.Set(int(done/megabyte), "") }
		}
		if err := file.Get(ctx); err != nil {
			return "", false, fmt.Errorf("%s: %w", info.Name, err)
		}
		downloaded = true
	}
	target := try.E1(filepath.Rel(filepath.Dir(link), file.Path))
	os.Remove(link) // A link to what is gone.
	return link, downloaded, os.Symlink(target, link)
}

// Settings locates the weights that settings of an experiment name, such as "init=facebook/dino-vits16" and "weights.NAME=FILE", and returns the settings with their
// paths. Other settings stay as they are.
func Settings(ctx context.Context, set []string, watch Watch) ([]string, error) {
	located := slices.Clone(set)
	for i, assignment := range set {
		key, name, _ := strings.Cut(assignment, "=")
		if !slices.Contains([]string{"init", "teacher", "weights"}, key) && !strings.HasPrefix(key, "weights.") && !strings.HasSuffix(key, ".weights") || name == "" || strings.Contains(name, "{seed}") {
			continue
		}
		path, err := Locate(ctx, name, watch)
		if err != nil {
			return nil, fmt.Errorf("--set %s: %w", key, err)
		}
		located[i] = key + "=" + path
	}
	return located, nil
}

//go:embed published.csv
var publishedFile string

// Checkpoint is a published file of weights of a method in the paper's tables, or of a successor.
type Checkpoint struct {
	Model   string `json:"model"`
	Encoder string `json:"encoder"`
	Where   string `json:"where"` // What [Locate] takes, or the address of a file or a page to download from by hand.
	Tried   string `json:"tried"` // What of it was read by this program: "layout" or "assumed".
}

// tried says in words what was tried of a checkpoint.
var tried = map[string]string{
	"layout":  "its layout of keys, with random weights; not the file",
	"assumed": "nothing: its layout is assumed to be Leopart's",
}

// Evidence says in words what of the checkpoint was read by this program.
func (c Checkpoint) Evidence() string { return tried[c.Tried] }

// Published lists published checkpoints, as published.csv does.
func Published() []Checkpoint {
	rows, err := csv.NewReader(strings.NewReader(publishedFile)).ReadAll()
	if err != nil {
		panic(err) // The file is part of the program, and its test reads it.
	}
	return lo.Map(rows[1:], func(row []string, _ int) Checkpoint { return Checkpoint{row[0], row[1], row[2], row[3]} })
}
