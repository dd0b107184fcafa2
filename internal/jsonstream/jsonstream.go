// Package jsonstream reads large JSON files value by value, in memory that the largest value bounds.
package jsonstream

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxValue is the length in bytes of the longest value that is read at once: an element of a list, or a name or a value of an object.
const maxValue = 64 << 20

// Open opens a file, and no pipe, which nobody may ever write to. Its error names the file.
func Open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	file, err := os.Open(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("%s: %w", path, failed.Err)
	}
	return file, err
}

// Reader reads one JSON value. Its methods read the parts of it in their order.
type Reader struct {
	source  limited
	decoder *jsontext.Decoder
}

// New returns a reader of the one value in a stream.
func New(r io.Reader) *Reader {
	s := &Reader{source: limited{from: r}}
	s.decoder = jsontext.NewDecoder(&s.source, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return s
}

// limited passes on the next bytes of a stream up to a limit, and remembers its error.
type limited struct {
	from io.Reader
	left int
	err  error
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		l.err = fmt.Errorf("a value is longer than %d MiB", maxValue>>20)
		return 0, l.err
	}
	n, err := l.from.Read(p[:min(len(p), l.left)])
	l.left -= n
	if err != nil && err != io.EOF {
		l.err = err
	}
	return n, err
}

// ValueError is a value of another type than the one wanted. The reader stands behind it, and the next value can be read.
type ValueError struct{ message string }

// Error returns what is wrong with the value.
func (e *ValueError) Error() string { return e.message }

// Object reads an object and calls each with its keys. Each time, it must read the value.
func (r *Reader) Object(each func(key string) error) error {
	return r.members('{', "a JSON object", func(int) error {
		key, err := r.token()
		if err != nil {
			return err
		}
		return each(key.String()) // The decoder takes nothing else for a key.
	})
}

// Array reads a list and calls each for its elements, from 0. Each time, it must read the element.
func (r *Reader) Array(each func(i int) error) error { return r.members('[', "a list", each) }

func (r *Reader) members(open jsontext.Kind, name string, each func(i int) error) error {
	if token, err := r.token(); err != nil || token.Kind() != open {
		return cmp.Or(err, fmt.Errorf("want %s at byte %d", name, r.decoder.InputOffset()))
	}
	for i := 0; ; i++ {
		r.source.left = maxValue
		if kind := r.decoder.PeekKind(); kind == '}' || kind == ']' {
			_, err := r.token()
			return err
		}
		if err := each(i); err != nil {
			return err
		}
	}
}

// Decode reads a value as [json.Unmarshal] does. A [*ValueError] says that the value is well formed, and not what is wanted.
func (r *Reader) Decode(into any) error {
	r.source.left = maxValue
	value, err := r.decoder.ReadValue()
	if err != nil {
		return r.broken(err)
	}
	err = json.Unmarshal(value, into)
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return &ValueError{err.Error()} // Of an UnmarshalJSON.
	}
	field := strings.TrimPrefix(mismatch.Field+": ", ": ")
	return &ValueError{fmt.Sprintf("%s%.40s, want %s", field, mismatch.Value, cmp.Or(kinds[mismatch.Type.Kind()], "a whole number"))} // A number may have a million digits.
}

// kinds are the names of types, except whole numbers.
var kinds = map[reflect.Kind]string{reflect.Struct: "an object", reflect.Slice: "a list", reflect.String: "a string", reflect.Float64: "a number"}

// Skip reads the next value and forgets it, in little memory.
func (r *Reader) Skip() error {
	for start := r.decoder.StackDepth(); ; {
		if _, err := r.token(); err != nil || r.decoder.StackDepth() == start {
			return err
		}
	}
}

// End makes sure that nothing follows the value.
func (r *Reader) End() error {
	r.source.left = maxValue
	_, err := r.decoder.ReadToken()
	switch {
	case err == nil:
		return fmt.Errorf("more follows the end, at byte %d", r.decoder.InputOffset())
	case err == io.EOF:
		return nil
	}
	return r.broken(err)
}

func (r *Reader) token() (jsontext.Token, error) {
	r.source.left = maxValue
	token, err := r.decoder.ReadToken()
	if err != nil {
		err = r.broken(err)
	}
	return token, err
}

// broken is the error of a stream that cannot be read on.
func (r *Reader) broken(err error) error {
	switch {
	case r.source.err != nil:
		return r.source.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("ends too soon")
	}
	return fmt.Errorf("is not JSON at byte %d: %w", r.decoder.InputOffset(), err)
}
