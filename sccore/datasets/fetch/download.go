package fetch

import (
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/sccore/datasets"
)

// stallLimit is how long a server may be silent before a download gives up. Tests shorten it.
var stallLimit = time.Minute

// Client follows redirects, but gives the token of an account to nobody else than the scheme, host and port that it was meant for.
var Client = &http.Client{CheckRedirect: func(request *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("10 redirects")
	}
	if first := via[0].URL; request.URL.Scheme != first.Scheme || request.URL.Host != first.Host {
		request.Header.Del("Authorization")
	}
	return nil
}}

// File is a file on a server, and where it is kept.
type File struct {
	Address, Path string
	Token         string                  // Of an account on the server of the address; empty for none.
	Most          int64                   // The server may send at most so many bytes.
	Digest        func() hash.Hash        // The hash function of Want.
	Want          string                  // The published digest, in hexadecimal digits; empty if there is none.
	Progress      func(done, total int64) // Called as bytes arrive; total is 0 if the server does not send it. Nil for nothing.
}

// Get downloads the file unless it is there, and compares it with its digest. A file with another digest is removed. Until the file is complete, the received
// bytes are in a .part file beside it, and a .version file names the version on the server that they belong to; the next call resumes if the server supports it.
// Without a .version file, or if the server names no versions, the download starts again. The error is one line that names the address or the file.
func (f File) Get(ctx context.Context) error {
	if f.Progress == nil {
		f.Progress = func(done, total int64) {}
	}
	_, err := os.Stat(f.Path)
	if err == nil {
		return f.check(f.Path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.download(ctx)
}

func (f File) download(ctx context.Context) (err error) {
	defer try.Handle(&err)
	address, part, version := f.Address, f.Path+".part", f.Path+".version"
	var have int64
	validator, err := os.ReadFile(version)
	if info, statErr := os.Stat(part); statErr == nil && err == nil && len(validator) > 0 {
		have = info.Size()
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallLimit, func() { cancel(fmt.Errorf("the server has been silent for %v", stallLimit)) })
	defer stalled.Stop()
	fail := func(err error) error { return fmt.Errorf("%s: %w", address, whyStopped(ctx, err)) }

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fail(err)
	}
	request.Header.Set("Accept-Encoding", "identity") // The digest is of the stored file.
	if f.Token != "" {
		request.Header.Set("Authorization", "Bearer "+f.Token)
	}
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		request.Header.Set("If-Range", string(validator))
	}
	response, err := Client.Do(request)
	if err != nil {
		return fail(err)
	}
	defer response.Body.Close()

	contentRange := response.Header.Get("Content-Range")
	switch status := response.StatusCode; {
	case status == http.StatusOK: // The whole file: there was no part, its version changed, or the server does not support ranges.
		have = 0
		try.E(restart(part, version, response.Header))
	case status == http.StatusPartialContent && have > 0 && strings.HasPrefix(contentRange, fmt.Sprintf("bytes %d-", have)):
	case status == http.StatusRequestedRangeNotSatisfiable && have > 0 && contentRange == fmt.Sprintf("bytes */%d", have):
		return f.keep(part, version) // The part was complete but not yet renamed.
	case status == http.StatusPartialContent || status == http.StatusRequestedRangeNotSatisfiable:
		if have == 0 {
			return fail(fmt.Errorf("unexpected status %s", response.Status))
		}
		try.E(os.Remove(version))
		return f.download(ctx) // Without the part.
	default:
		return fail(errors.New(response.Status))
	}

	var total int64
	if response.ContentLength >= 0 {
		total = have + response.ContentLength
	}
	out := try.E1(os.OpenFile(part, os.O_WRONLY|os.O_APPEND, 0))
	f.Progress(have, total)
	if total > f.Most {
		return fail(errors.Join(fmt.Errorf("has %d bytes, want at most %d", total, f.Most), out.Close()))
	}
	done := have
	watch := watcher(func(n int) {
		stalled.Reset(stallLimit)
		done += int64(n)
		f.Progress(done, total)
	})
	_, err = io.Copy(io.MultiWriter(out, watch), io.LimitReader(response.Body, f.Most-have+1))
	if wrong := cmp.Or(out.Sync(), out.Close()); err == nil {
		err = wrong
	}
	switch onDisk := new(fs.PathError); {
	case errors.As(err, &onDisk):
		return err
	case err != nil:
		return fail(fmt.Errorf("stopped at byte %d, the next call resumes there: %w", done, whyStopped(ctx, err)))
	case done > f.Most:
		os.Remove(part)
		return fail(fmt.Errorf("sends more than %d bytes", f.Most))
	}
	return f.keep(part, version)
}

// restart empties the part and writes its version: a strong entity tag, or else a date (RFC 9110, section 13.1.5). The order of the writes
// never leaves an old part beside a new version.
func restart(part, version string, header http.Header) (err error) {
	defer try.Handle(&err)
	validator := header.Get("ETag")
	if validator == "" || strings.HasPrefix(validator, "W/") {
		validator = header.Get("Last-Modified")
	}
	try.E(os.RemoveAll(version))
	try.E(os.WriteFile(part, nil, 0o666))
	return os.WriteFile(version, []byte(validator), 0o666)
}

// keep renames a complete part that has the digest.
func (f File) keep(part, version string) error {
	if err := f.check(part); err != nil {
		return cmp.Or(os.RemoveAll(version), err)
	}
	return cmp.Or(os.Rename(part, f.Path), os.RemoveAll(version))
}

// check compares a file with the published digest and removes it if they differ.
func (f File) check(path string) error {
	if f.Want == "" {
		return nil
	}
	got, err := sum(path, f.Digest())
	if err == nil && got != f.Want {
		err = cmp.Or(os.Remove(path), fmt.Errorf("%s: %s %w %s, want %s: removed", f.Path, kinds[len(got)].name, errDigest, got, f.Want))
	}
	return err
}

var errDigest = errors.New("digest") // Of a file that has another one than it should.

// kinds are the hash functions of digests by their number of hexadecimal digits.
var kinds = map[int]struct {
	name string
	new  func() hash.Hash
}{32: {"MD5", md5.New}, 40: {"SHA-1", sha1.New}, 64: {"SHA-256", sha256.New}}

// sum returns the digest of a file in hexadecimal digits.
func sum(path string, digest hash.Hash) (_ string, err error) {
	defer try.Handle(&err)
	in := try.E1(os.Open(path))
	defer in.Close()
	if _, err := io.Copy(digest, in); err != nil {
		return "", fmt.Errorf("%s: %w", path, datasets.Reason(err))
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// whyStopped returns why a request ended, without the address.
func whyStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if urlError, ok := errors.AsType[*url.Error](err); ok {
		return urlError.Err
	}
	return err
}

// watcher is told how many bytes come.
type watcher func(n int)

func (w watcher) Write(p []byte) (int, error) {
	w(len(p))
	return len(p), nil
}
