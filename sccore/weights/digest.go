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
	content, err := io.ReadAll(header)
	if err != nil {
		return err
	}
	digest := sha256.New()
	digest.Write(bytes.Replace(content, digestEntry(want), digestEntry(noDigest), 1))
	if _, err := io.Copy(digest, io.NewSectionReader(data, 0, data.Size())); err != nil {
		return err
	}
	if hex.EncodeToString(digest.Sum(nil)) != want {
		return errDigest
	}
	return nil
}
