package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
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
func openImages(from string, by datasets.Preprocessing, size, patch int) (imageList, error) {
	if filepath.Ext(from) == ".safetensors" {
		return openStandardised(from)
	}
	list := imageList{}
	var paths []string
	info, err := os.Stat(from)
	switch {
	case from == "-":
		if list.names, err = readPaths(os.Stdin); err != nil {
			return list, fmt.Errorf("standard input: %w", err)
		}
		paths = list.names
	case err == nil && info.Mode().IsRegular():
		content, err := os.ReadFile(from)
		if err == nil {
			list.names, err = readPaths(bytes.NewReader(content))
		}
		if err != nil {
			return list, fmt.Errorf("%s: %w", from, err)
		}
		paths = list.names
	default:
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
		size := int64(-1) // An image that is not there is skipped.
		if info, err := os.Stat(path); err == nil {
			size = info.Size()
		}
		fmt.Fprintf(digest, "%q %d\n", path, size)
	}
	list.identity = fmt.Sprintf("sha256 of paths and sizes %x", digest.Sum(nil))
	list.read = func(i int) (evaluation.Image, error) {
		pixels, read, err := by.ReadFile(paths[i], size, patch)
		if err != nil {
			return evaluation.Image{}, err
		}
		im := evaluation.NewImage(pixels, read, by)
		im.Name = paths[i]
		return im, nil
	}
	return list, nil
}

// maxListed bounds the number of images in a list, and maxPath the length of a line.
const maxListed, maxPath = 1 << 25, 1 << 12

// readPaths reads paths, one a line. Empty lines do not count.
func readPaths(r io.Reader) (paths []string, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPath)
	for lines.Scan() {
		path := strings.TrimSuffix(lines.Text(), "\r")
		if path == "" {
			continue
		}
		if paths = append(paths, path); len(paths) > maxListed {
			return nil, fmt.Errorf("lists more than %d images", maxListed)
		}
		if strings.ContainsRune(path, 0) {
			return nil, fmt.Errorf("line %d is not a path: want a list of the paths of images, one a line", len(paths))
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("line %d: %w: want a list of the paths of images, one a line", len(paths)+1, lines.Err())
	case len(paths) == 0:
		return nil, fmt.Errorf("lists no images")
	}
	return paths, nil
}

func openStandardised(path string) (imageList, error) {
	named, _, err := safetensors.Read(path)
	if err != nil {
		return imageList{}, err
	}
	images := named["images"]
	if images == nil || images.DType() != dtypes.Float32 || images.Rank() != 4 || images.Shape().Dim(3) != 3 {
		return imageList{}, fmt.Errorf("%s: want a float32 tensor \"images\", [count, height, width, 3]", path)
	}
	identity, err := digestOf(path)
	if err != nil {
		return imageList{}, err
	}
	list := imageList{identity: identity}
	values := tensors.MustCopyFlatData[float32](images)
	height, width := images.Shape().Dim(1), images.Shape().Dim(2)
	for i := range images.Shape().Dim(0) {
		list.names = append(list.names, fmt.Sprint(i))
	}
	one := height * width * 3
	list.read = func(i int) (evaluation.Image, error) {
		return evaluation.Image{Name: fmt.Sprintf("%d of %s", i, path), Height: height, Width: width, Pixels: values[i*one : (i+1)*one]}, nil
	}
	return list, nil
}

// digestOf identifies the content of a file of weights and, if it is an index, of the files that it names.
func digestOf(path string) (string, error) {
	files, err := weights.Files(path)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(digest, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return fmt.Sprintf("sha256 %x", digest.Sum(nil)), nil
}

// imageRead is an image of a list, or why it cannot be read.
type imageRead struct {
	image evaluation.Image
	err   error
}

// from yields the images from number first on, in order. They are read in parallel, a few ahead.
func (l imageList) from(ctx context.Context, first int) iter.Seq2[int, imageRead] {
	return func(yield func(int, imageRead) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
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
		i := first
		for one := range ahead {
			if ctx.Err() != nil || !yield(i, <-one) {
				return
			}
			i++
		}
	}
}
