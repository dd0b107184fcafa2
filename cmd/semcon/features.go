package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
	"github.com/spf13/cobra"
)

// featureCall is what the flags of the verb ask for.
type featureCall struct {
	vit     vitFile
	outputs evaluation.Outputs

	Out   string
	Class bool
	Batch int
}

// names are the names of the tensors that are written, block by block, "class" before "patches".
func (c featureCall) names() (names []string) {
	blocks := lo.Map(c.outputs.Blocks, func(block, _ int) string { return fmt.Sprintf("layer%d.", block) })
	for _, block := range lo.CoalesceSliceOrEmpty(blocks, []string{""}) {
		if c.Class {
			names = append(names, block+"class")
		}
		if c.outputs.Patches {
			names = append(names, block+"patches")
		}
	}
	return names
}

func featuresVerb(cmd *cobra.Command, flags flagTexts) {
	var c featureCall
	var f struct {
		Weights string
		Layer   []int
	}
	choice, preprocess := weightFlags(cmd, flags, &c, &c.outputs, &f), preprocessingFlags(cmd, flags)
	cmd.Run = func(cmd *cobra.Command, names []string) {
		c.outputs.Blocks = f.Layer
		for i, block := range c.outputs.Blocks {
			refuse(slices.Contains(c.outputs.Blocks[:i], block), "--layer: block %d is there twice", block)
		}
		extension, named := filepath.Ext(c.Out), c.names()
		refuse(len(names) == 0, "want at least one image: files, folders, patterns or lists, or one .safetensors of standardised images")
		requireWeights(f.Weights)
		refuse(extension != ".npy" && extension != ".safetensors", "--out %s ends with neither .npy nor .safetensors", c.Out)
		refuse(c.outputs.Resolution > 0 && !c.outputs.Patches, "--resolution %d: want a number above 0, with --patches", c.outputs.Resolution)
		refuse(len(named) == 0, "--class=false without --patches leaves nothing to compute")
		refuse(extension == ".npy" && len(named) > 1, "--out %s: a .npy holds one tensor, not %s; want a .safetensors", c.Out, strings.Join(named, " and "))
		requireWritableFile("out", c.Out, append(names, f.Weights)...)
		if extension == ".npy" {
			requireInputsKept("out", strings.TrimSuffix(c.Out, ".npy")+".txt", names...) // Of the names of images.
		}
		locateFlag(cmd, "weights", &f.Weights)
		c.vit = choice.open(f.Weights)
		preprocess(&c.vit)
		c.run(cmd.Context(), names, f.Weights)
	}
}

// run computes the features of images with the weights in a file, and writes them.
func (c featureCall) run(ctx context.Context, inputs []string, file string) {
	patch, whole := c.vit.ViT.PatchSize, c.vit.preprocessing.CropMode == datasets.WholeImage
	refuse(whole && c.outputs.Patches && filepath.Ext(c.Out) == ".npy", "--out %s: maps of whole images have several sizes; want a .safetensors", c.Out)
	wrong := c.outputs.Check(c.vit.ViT)
	refuse(wrong != nil, "--layer: %v", wrong)
	described := c.vit.preprocessing.Describe(c.vit.size)
	if standardised(inputs) {
		described = "standardised images"
	} else if !whole {
		requireWhole(c.vit.size, patch)
	}
	images := openImages(inputs, c.vit)
	maps := len(images.names) * max(len(c.outputs.Blocks), 1)
	refuse(whole && c.outputs.Patches && maps > 1<<15, "--patches: %d maps of whole images, and a file holds at most %d: give fewer images", maps, 1<<15)
	listed := try.E1(json.Marshal(string(try.E1(json.Marshal(images.names))))) // Their names go into the header of a .safetensors, of 16 MiB at most.
	refuse(filepath.Ext(c.Out) != ".npy" && len(listed) > 15<<20, "--out %s: cannot hold the names of %d images; want a .npy", c.Out, len(images.names))
	engine := openEngine()
	store := openFeatureStore(c.Out+".partial", map[string]any{
		"weights": "sha256 " + try.E1(weights.SHA256(file)), "transformer": fmt.Sprintf("%+v", c.vit.ViT), "prefix": c.vit.Prefix, "ignore": c.vit.Ignore,
		"images": images.identity, "preprocessing": described, "outputs": c.outputs, "tensors": c.names(), "batch": c.Batch, "engine": backend.Name(),
	})
	defer store.close()
	if store.renewed {
		fmt.Fprintf(os.Stderr, "%s.partial is of other settings or images, and is begun anew\n", c.Out)
	}
	frozen := c.vit.encoder(engine, min(c.Batch, len(images.names)))
	defer frozen.Close()
	c.extract(ctx, frozen.FeatureExtractor, images, store)
	var rows, skipped []string
	for _, b := range store.batches {
		rows, skipped = append(rows, b.Images...), append(skipped, b.Skipped...)
	}
	if len(rows) == 0 {
		try.E(os.RemoveAll(store.dir))
	}
	sayUnread(inputs, skipped, len(rows))
	c.write(store, rows, described)
	fmt.Printf("wrote %s: %s, %d features each, from %s\n", c.Out, plural.Count(len(rows), "image"), c.vit.ViT.Dim, c.vit.ViT.Name)
	try.E(os.RemoveAll(store.dir))
}

// extract computes the features that are still missing, a batch of images of one size at a time.
func (c featureCall) extract(ctx context.Context, frozen *evaluation.FeatureExtractor, images imageList, store *featureStore) {
	bar, first := progress.New(os.Stderr, "features", len(images.names)), store.done()
	defer bar.Close()
	if first > 0 {
		bar.Resumed(first)
	}
	bar.Phase(progress.Compiling)
	var batch []evaluation.Image
	b := featureBatch{Done: first}
	flush := func() {
		store.add(b, c.tensors(try.E1(frozen.ExtractAll(batch, c.outputs)), store))
		batch, b = nil, featureBatch{Done: b.Done}
		bar.Phase("")
		bar.Set(b.Done, "")
	}
	read := func(i int) (one lo.Tuple2[evaluation.Image, error], _ error) {
		one.B = panics.Catch(func() (err error) { one.A, err = images.read(first + i); return err })
		return one, nil
	}
	for one, err := range datasets.InTurn(ctx, len(images.names)-first, c.Batch, read) {
		if try.E(err); one.B != nil {
			b.Done, b.Skipped = b.Done+1, append(b.Skipped, one.B.Error())
			continue
		}
		if len(batch) > 0 && (batch[0].Height != one.A.Height || batch[0].Width != one.A.Width) {
			flush()
		}
		batch, b.Images = append(batch, one.A), append(b.Images, images.names[b.Done])
		if b.Done++; len(batch) == c.Batch {
			flush()
		}
	}
	if try.E(ctx.Err()); len(batch) > 0 || len(b.Skipped) > 0 {
		flush()
	}
}

// tensors are the features of the next batch of a store: "class", [images, features], and "patches", [images, rows, columns, features], or both for each block. Maps
// of whole images, which have several sizes, are one tensor an image, "patches.0", [rows, columns, features].
func (c featureCall) tensors(batch [][]evaluation.Features, store *featureStore) map[string]*tensors.Tensor {
	named, names, dim := map[string]*tensors.Tensor{}, c.names(), c.vit.ViT.Dim
	row := lo.SumBy(store.batches, func(b featureBatch) int { return len(b.Images) })
	for i, name := range names {
		var all []float32
		var shape []int
		for j, blocks := range batch {
			switch block := blocks[i*len(blocks)/len(names)]; {
			case strings.HasSuffix(name, "class"):
				all, shape = append(all, block.Class...), []int{len(batch), dim}
			case c.vit.preprocessing.CropMode == datasets.WholeImage:
				named[fmt.Sprintf("%s.%d", name, row+j)] = tensors.FromFlatDataAndDimensions(block.Patches, block.Rows, block.Columns, dim)
			default:
				all, shape = append(all, block.Patches...), []int{len(batch), block.Rows, block.Columns, dim}
			}
		}
		if shape != nil {
			named[name] = tensors.FromFlatDataAndDimensions(all, shape...)
		}
	}
	return named
}

// write writes the tensors of all batches, which are joined but for those of whole images.
func (c featureCall) write(store *featureStore, rows []string, preprocessing string) {
	named, parts := map[string]safetensors.RawTensor{}, map[string][]safetensors.Tensor{}
	for _, b := range store.batches {
		held, _, err := safetensors.Open(b, try.E1(os.Stat(b.file)).Size())
		fail(err != nil, "%s: %v", b.file, err)
		for name, part := range held {
			if parts[name] = append(parts[name], part); len(parts[name]) > 1 {
				named[name].Shape[0] += part.Shape[0]
				continue
			}
			named[name] = safetensors.RawTensor{Shape: slices.Clone(part.Shape), Write: func(w io.Writer) (err error) {
				defer try.Handle(&err)
				for _, part := range parts[name] {
					_, values := try.E2(part.Bytes())
					try.E1(w.Write(values))
				}
				return nil
			}}
		}
	}
	if base, isNPY := strings.CutSuffix(c.Out, ".npy"); isNPY {
		try.E(safetensors.WriteNPY(c.Out, named[c.names()[0]]))
		oneLine := strings.NewReplacer("\n", `\n`, "\r", `\r`) // A name may hold a line break, and the file has a line for each row.
		lines := lo.Map(rows, func(row string, _ int) string { return oneLine.Replace(row) + "\n" })
		try.E(atomicfile.WriteBytes(base+".txt", []byte(strings.Join(lines, ""))))
		return
	}
	metadata := map[string]string{
		"images": string(try.E1(json.Marshal(rows))), "architecture": c.vit.ViT.Name, "positions": string(c.vit.ViT.Positions), "preprocessing": preprocessing,
	}
	if len(c.vit.Ignored) > 0 {
		metadata["ignored"] = strings.Join(c.vit.Ignored, " ")
	}
	try.E(safetensors.WriteRaw(c.Out, named, metadata))
}

// imageList is the images whose features are computed.
type imageList struct {
	names    []string
	identity string // Of what is read, so that a call that goes on notices other images.
	read     func(i int) (evaluation.Image, error)
}

// openImages opens the images that inputs name, or a .safetensors with a tensor "images", [count, height, width, 3], of standardised images. The images of a
// single folder are named below it.
func openImages(inputs []string, v vitFile) (list imageList) {
	if standardised(inputs) {
		return openStandardised(inputs[0])
	}
	paths := findImages(inputs)
	list.names = slices.Clone(paths)
	if len(inputs) == 1 && datasets.IsFolder(inputs[0]) {
		folder := filepath.Clean(inputs[0]) + string(filepath.Separator)
		list.names = lo.Map(paths, func(path string, _ int) string { return strings.TrimPrefix(path, folder) })
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
	return list
}

// standardised reports whether the inputs are one file of images that need no preprocessing.
func standardised(inputs []string) bool {
	return len(inputs) == 1 && filepath.Ext(inputs[0]) == ".safetensors"
}

func openStandardised(path string) (list imageList) {
	named, _ := try.E2(safetensors.Read(path))
	images := named["images"]
	fail(images == nil || images.DType() != dtypes.Float32 || images.Rank() != 4 || images.Shape().Dim(3) != 3,
		"%s: want a float32 tensor \"images\", [count, height, width, 3]", path)
	values := tensors.MustCopyFlatData[float32](images)
	height, width := images.Shape().Dim(1), images.Shape().Dim(2)
	list.names = lo.Times(images.Shape().Dim(0), strconv.Itoa)
	list.read = func(i int) (evaluation.Image, error) {
		one := height * width * 3
		return evaluation.Image{Name: fmt.Sprintf("%d of %s", i, path), Height: height, Width: width, Pixels: values[i*one : (i+1)*one]}, nil
	}
	list.identity = "sha256 " + try.E1(weights.SHA256(path))
	return list
}

// featureStore keeps features in a folder while they are computed, in a file for each batch, so that a call that is killed goes on where it stopped and leaves the
// same bytes.
type featureStore struct {
	batches []featureBatch
	renewed bool // The folder held features of other settings, which are gone.
	close   func()

	dir string
}

// featureBatch is what a file says of its batch.
type featureBatch struct {
	Done    int      // Images that were read or skipped, from the first batch on.
	Images  []string // The names of those with features.
	Skipped []string // Why others have none.

	file string
}

// ReadAt reads from the batch's file, which is open only meanwhile: there may be more batches than a process can have files open.
func (b featureBatch) ReadAt(p []byte, offset int64) (n int, err error) {
	defer try.Handle(&err)
	file := try.E1(os.Open(b.file))
	defer file.Close()
	return file.ReadAt(p, offset)
}

// openFeatureStore opens the folder dir, or makes it, with what it holds of the same settings, up to the first batch that is not whole. It ends the verb with an
// error, also if another process has it open.
func openFeatureStore(dir string, settings any) *featureStore {
	wanted := try.E1(json.MarshalIndent(settings, "", "  "))
	try.E(os.MkdirAll(dir, 0o777))
	unlock, taken := try.E2(filelock.Try(filepath.Join(dir, "lock")))
	fail(!taken, "%s: another process is writing it", strings.TrimSuffix(dir, filepath.Ext(dir)))
	s := &featureStore{dir: dir, close: unlock}
	settingsFile := filepath.Join(dir, "settings.json")
	if found, _ := os.ReadFile(settingsFile); !bytes.Equal(found, wanted) { // One that cannot be read is written anew.
		s.renewed = found != nil
		for _, old := range try.E1(os.ReadDir(dir)) {
			if strings.HasSuffix(old.Name(), ".safetensors") {
				try.E(os.Remove(filepath.Join(dir, old.Name())))
			}
		}
		try.E(atomicfile.WriteBytes(settingsFile, wanted))
	}
	for {
		var b featureBatch
		metadata, err := safetensors.ReadMetadata(s.next())
		if err != nil || json.Unmarshal([]byte(metadata["batch"]), &b) != nil || b.Done <= s.done() {
			return s
		}
		b.file = s.next()
		s.batches = append(s.batches, b)
	}
}

// done is the number of images that were read or skipped.
func (s *featureStore) done() int { return lo.LastOrEmpty(s.batches).Done }

// next is the file of the next batch.
func (s *featureStore) next() string {
	return filepath.Join(s.dir, fmt.Sprintf("%012d.safetensors", s.done()))
}

// add writes a batch. Bytes of names that are not UTF-8 become U+FFFD.
func (s *featureStore) add(b featureBatch, named map[string]*tensors.Tensor) {
	encoded := try.E1(json.Marshal(b))
	try.E(safetensors.Write(s.next(), named, map[string]string{"batch": string(encoded)}))
	added := featureBatch{file: s.next()}
	try.E(json.Unmarshal(encoded, &added)) // As a later call reads it.
	s.batches = append(s.batches, added)
}
