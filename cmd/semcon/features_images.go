package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/panics"
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

// openImages opens the images that inputs name, or a .safetensors with a tensor "images", [count, height, width, 3], of standardised images. The images of a
// single folder are named below it.
func openImages(inputs []string, v vitFile) (list imageList, err error) {
	if standardised(inputs) {
		return openStandardised(inputs[0])
	}
	paths, err := findImages(inputs)
	if err != nil {
		return list, err
	}
	list.names = slices.Clone(paths)
	if info, err := os.Stat(inputs[0]); len(inputs) == 1 && err == nil && info.IsDir() {
		for i := range paths {
			list.names[i] = strings.TrimPrefix(paths[i], filepath.Clean(inputs[0])+string(filepath.Separator))
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

// standardised reports whether the inputs are one file of images that need no preprocessing.
func standardised(inputs []string) bool {
	return len(inputs) == 1 && filepath.Ext(inputs[0]) == ".safetensors"
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
