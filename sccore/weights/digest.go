package weights

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
)

// digestKey is the metadata entry of a file's own digest: the SHA-256 of its header, in which the digest itself is [noDigest], and of its tensors.
// Files of others do not have it and are not checked.
const digestKey = "semcon.sha256"

// noDigest holds the digest's place while it is computed.
var noDigest = strings.Repeat("0", 2*sha256.Size)

// errDigest says that a file is not what was written.
var errDigest = errors.New("damaged: the content does not agree with the checksum in its metadata")

// setDigest puts a digest into the header in place of [noDigest].
func setDigest(header []byte, digest string) []byte {
	return bytes.Replace(header, digestEntry(noDigest), digestEntry(digest), 1)
}

// digestEntry is how the digest stands in a header.
func digestEntry(digest string) []byte { return []byte(`"` + digestKey + `":"` + digest + `"`) }

// checkDigest compares a file with the digest in its metadata, if it has one, and removes it from the metadata.
func checkDigest(metadata map[string]string, header, data *io.SectionReader) error {
	want, ok := metadata[digestKey]
	if !ok {
		return nil
	}
	delete(metadata, digestKey)
	if len(want) != len(noDigest) {
		return errDigest
	}
	at, err := find(header, digestEntry(want))
	if err != nil {
		return err
	}
	digest := sha256.New()
	after := at + int64(len(digestEntry(want)))
	for _, part := range []io.Reader{
		io.NewSectionReader(header, 0, at), bytes.NewReader(digestEntry(noDigest)), io.NewSectionReader(header, after, header.Size()-after),
		io.NewSectionReader(data, 0, data.Size()),
	} {
		if _, err := io.Copy(digest, part); err != nil {
			return err
		}
	}
	if hex.EncodeToString(digest.Sum(nil)) != want {
		return errDigest
	}
	return nil
}

// find returns where a text is in a section, without reading the section at once.
func find(section *io.SectionReader, text []byte) (int64, error) {
	window := make([]byte, 1<<16+len(text))
	for at := int64(0); at < section.Size(); at += 1 << 16 {
		n, err := section.ReadAt(window, at)
		if i := bytes.Index(window[:n], text); i >= 0 {
			return at + int64(i), nil
		}
		if err != nil && err != io.EOF {
			return 0, err
		}
	}
	return 0, errDigest
}
