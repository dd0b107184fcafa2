package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
)

// imageList is the images whose features are computed.
type imageList struct {
	names    []string
	identity string // Of what is read, so that a call that goes on notices other images.
	read     func(i int) (evaluation.Image, error)
}

// openImages opens a folder of images, a file that lists the paths of images, "-" for such a list on standard input, or a .safetensors with a tensor
// "images", [count, height, width, 3], of standardised images.
func openImages(from string, v vitFile) (list imageList, err error) {
	if filepath.Ext(from) == ".safetensors" {
		return openStandardised(from)
	}
	var paths []string
	if info, err := os.Stat(from); from == "-" || err == nil && info.Mode().IsRegular() {
		lines, name := os.Stdin, "standard input"
		if from != "-" {
			if lines, err = os.Open(from); err != nil {
				return list, err
			}
			defer lines.Close()
			name = from
		}
		if list.names, err = readPaths(lines); err != nil {
			return list, fmt.Errorf("%s: %w", name, err)
		}
		paths = list.names
	} else {
		folder, err := datasets.OpenImageFolder(from)
		if err != nil {
			return list, err
		}
		for _, s := range folder.Skipped {
			fmt.Fprintf(os.Stderr, "ignored %s: %s\n", s.File, s.Reason)
		}
		for i := range folder.Len() {
			list.names, paths = append(list.names, folder.File(i)), append(paths, filepath.Join(from, filepath.FromSlash(folder.File(i))))
		}
	}
	digest := sha256.New()
	for _, path := range paths {
		size, changed := int64(-1), int64(0) // An image that is not there is skipped.
		if info, err := os.Stat(path); err == nil {
			size, changed = info.Size(), info.ModTime().UnixNano()
		}
		fmt.Fprintf(digest, "%q %d %d\n", path, size, changed)
	}
	list.identity = fmt.Sprintf("sha256 of paths, sizes and times %x", digest.Sum(nil))
	list.read = func(i int) (evaluation.Image, error) { return v.readImage(paths[i]) }
	return list, nil
}

// maxListed bounds the number of images in a list, and maxPath the length of a line.
const maxListed, maxPath = 1 << 25, 1 << 12

// readPaths reads paths, one a line. Empty lines do not count.
func readPaths(r io.Reader) (paths []string, err error) {
	const want = "want a list of the paths of images, one a line"
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPath)
	for lines.Scan() {
		path := strings.TrimPrefix(strings.TrimSuffix(lines.Text(), "\r"), "\ufeff") // Windows writes a mark of byte order.
		if path == "" {
			continue
		}
		if paths = append(paths, path); len(paths) > maxListed {
			return nil, fmt.Errorf("lists more than %d images", maxListed)
		}
		if strings.ContainsRune(path, 0) {
			return nil, fmt.Errorf("line %d is not a path: %s", len(paths), want)
		}
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("line %d: %w: %s", len(paths)+1, lines.Err(), want)
	}
	if len(paths) == 0 {
		return nil, errors.New("lists no images")
	}
	return paths, nil
}

func openStandardised(path string) (list imageList, err error) {
	named, _, err := safetensors.Read(path)
	if err != nil {
		return list, err
	}
	images := named["images"]
	if images == nil || images.DType() != dtypes.Float32 || images.Rank() != 4 || images.Shape().Dim(3) != 3 {
		return list, fmt.Errorf("%s: want a float32 tensor \"images\", [count, height, width, 3]", path)
	}
	values := tensors.MustCopyFlatData[float32](images)
	height, width := images.Shape().Dim(1), images.Shape().Dim(2)
	for i := range images.Shape().Dim(0) {
		list.names = append(list.names, strconv.Itoa(i))
	}
	list.read = func(i int) (evaluation.Image, error) {
		one := height * width * 3
		return evaluation.Image{Name: fmt.Sprintf("%d of %s", i, path), Height: height, Width: width, Pixels: values[i*one : (i+1)*one]}, nil
	}
	list.identity, err = digestOf(path)
	return list, err
}

// digestOf identifies the content of a file of weights and, if it is an index, of the files that it names.
func digestOf(path string) (string, error) {
	digest, err := weights.SHA256(path)
	return "sha256 " + digest, err
}

// imageRead is an image of a list, or why it cannot be read.
type imageRead struct {
	image evaluation.Image
	err   error
}

// ahead reads the images from a number on in parallel, a few before they are taken. What is sent for each is received in order.
func (l imageList) ahead(ctx context.Context, first int) <-chan chan imageRead {
	ahead := make(chan chan imageRead, runtime.GOMAXPROCS(0))
	go func() {
		defer close(ahead)
		for i := first; i < len(l.names); i++ {
			one := make(chan imageRead, 1)
			select {
			case ahead <- one:
			case <-ctx.Done():
				return
			}
			go func() {
				var read imageRead
				read.err = panics.Catch(func() (err error) { read.image, err = l.read(i); return err })
				one <- read
			}()
		}
	}()
	return ahead
}
