package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
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
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/weights"
	"github.com/spf13/cobra"
)

// featureCall is what the flags of the verb ask for.
type featureCall struct {
	vit     vitFile
	out     string
	class   bool
	outputs evaluation.Outputs
	batch   int
}

// names are the names of the tensors that are written, block by block, "class" before "patches".
func (c featureCall) names() (names []string) {
	for i := range max(len(c.outputs.Blocks), 1) {
		block := ""
		if len(c.outputs.Blocks) > 0 {
			block = fmt.Sprintf("layer%d.", c.outputs.Blocks[i])
		}
		if c.class {
			names = append(names, block+"class")
		}
		if c.outputs.Patches {
			names = append(names, block+"patches")
		}
	}
	return names
}

// values are the values of an image in the order of names.
func (c featureCall) values(blocks []evaluation.Features) (all [][]float32) {
	for _, block := range blocks {
		if c.class {
			all = append(all, block.Class)
		}
		if c.outputs.Patches {
			all = append(all, block.Patches)
		}
	}
	return all
}

func featuresVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use: "features IMAGES…", Short: "compute the features of images with a transformer",
		Long: "Compute the features of images with a transformer. " + inputsHelp + " A .safetensors with a tensor \"images\", [count, height, width, 3], has standardised ones.",
		Example: "semcon features photos --weights dino_deitsmall16_pretrain.pth --out features.npy\n" +
			"semcon features photos --weights weights/dino-s16.safetensors --size 448 --patches --out features.safetensors\n" +
			"find photos -name '*.jpg' | semcon features - --weights weights/dino-s16.safetensors --layer 9,12 --patches --crop-mode whole --out maps.safetensors",
		Annotations: map[string]string{kept: "finished batches are kept beside --out"},
	}
	var c featureCall
	flags, choice, file := cmd.Flags(), addWeightFlags(cmd), weightsFlag(cmd)
	flags.StringVar(&c.out, "out", "features.npy", "`FILE` to write: .safetensors, or .npy for one tensor, with the names of the images in .txt beside it")
	flags.BoolVar(&c.class, "class", true, "write the features of [CLS]; --class=false leaves them out")
	flags.BoolVar(&c.outputs.Patches, "patches", false, "write the features of patches")
	flags.Var(listFlag(&c.outputs.Blocks, strconv.Atoi), "layer", "`BLOCKS` after which features are taken, from 1, with commas between them; by default the last one")
	flags.IntVar(&c.outputs.Resolution, "resolution", 0, "`NUMBER` of rows or columns, whichever are fewer, that maps of patches are resized to; by default as many as patches")
	preprocess := preprocessingFlags(cmd)
	flags.IntVar(&c.batch, "batch", 16, "`NUMBER` of images per batch")
	cmd.Run = func(cmd *cobra.Command, names []string) {
		for i, block := range c.outputs.Blocks {
			refuse(slices.Contains(c.outputs.Blocks[:i], block), "--layer: block %d is there twice", block)
		}
		extension, named := filepath.Ext(c.out), c.names()
		refuse(len(names) == 0, "want at least one image: files, folders, patterns or lists, or one .safetensors of standardised images")
		requireWeights(*file)
		refuse(extension != ".npy" && extension != ".safetensors", "--out %s ends with neither .npy nor .safetensors", c.out)
		refuse(c.batch < 1, "--batch %d is below 1", c.batch)
		refuse(c.outputs.Resolution < 0 || c.outputs.Resolution > 0 && !c.outputs.Patches,
			"--resolution %d: want a number above 0, with --patches", c.outputs.Resolution)
		refuse(len(named) == 0, "--class=false without --patches leaves nothing to compute")
		refuse(extension == ".npy" && len(named) > 1, "--out %s: a .npy holds one tensor, not %s; want a .safetensors", c.out, strings.Join(named, " and "))
		requireWritableFile("out", c.out)
		locateFlag(cmd, "weights", file)
		c.vit = choice.open(*file)
		preprocess(&c.vit)
		c.run(cmd.Context(), names, *file)
	}
	return cmd
}

// run computes the features of images with the weights in a file, and writes them.
func (c featureCall) run(ctx context.Context, inputs []string, file string) {
	patch, whole := c.vit.ViT.PatchSize, c.vit.preprocessing.CropMode == datasets.WholeImage
	refuse(whole && c.outputs.Patches && filepath.Ext(c.out) == ".npy", "--out %s: maps of whole images have several sizes; want a .safetensors", c.out)
	wrong := c.outputs.Check(c.vit.ViT)
	refuse(wrong != nil, "--layer: %v", wrong)
	described := c.vit.preprocessing.Describe(c.vit.size)
	if standardised(inputs) {
		described = "standardised images"
	} else {
		refuse(!whole && c.vit.size%patch != 0, "--size: images of %[1]d×%[1]d pixels cannot be split into the transformer's patches of %[2]d", c.vit.size, patch)
	}
	images := openImages(inputs, c.vit)
	engine := openEngine()
	store := try.E1(evaluation.OpenFeatureStore(c.out+".partial", map[string]any{
		"weights": try.E1(digestOf(file)), "transformer": fmt.Sprintf("%+v", c.vit.ViT), "prefix": c.vit.Prefix, "ignore": c.vit.Ignore, "images": images.identity,
		"preprocessing": described, "outputs": c.outputs, "tensors": c.names(), "batch": c.batch, "engine": backend.Name(),
	}))
	defer store.Close()
	if store.Renewed {
		fmt.Fprintf(os.Stderr, "%s.partial is of other settings or images, and is begun anew\n", c.out)
	}
	frozen := c.vit.encoder(engine, min(c.batch, len(images.names)))
	defer frozen.Close()
	c.extract(ctx, frozen.FeatureExtractor, images, store)
	var rows, skipped []string
	for _, b := range store.Batches {
		rows, skipped = append(rows, b.Images...), append(skipped, b.Skipped...)
	}
	for _, why := range skipped {
		fmt.Fprintf(os.Stderr, "skipped %s\n", why)
	}
	if len(rows) == 0 {
		try.E(errors.Join(fmt.Errorf("none of the images in %s can be read: %s", strings.Join(inputs, ", "), skipped[0]), store.Remove()))
	}
	if len(skipped) > 0 {
		fmt.Fprintf(os.Stderr, "skipped %d of %s\n", len(skipped), plural.Count(len(skipped)+len(rows), "image"))
	}
	c.write(store, rows, described)
	fmt.Printf("wrote %s: %s, %d features each, from %s\n", c.out, plural.Count(len(rows), "image"), c.vit.ViT.Dim, c.vit.ViT.Name)
	try.E(store.Remove())
}

// preprocessingFlags adds the flags of how images are preprocessed. The function that it returns changes what the makers of the weights do where flags say so.
func preprocessingFlags(c *cobra.Command) func(*vitFile) {
	flags := c.Flags()
	size := flags.Int("size", 224, "`PIXELS` of the height and width of crops, or of the shorter side of whole images; by default as the weights' makers have it")
	resize := flags.Int("resize", 0, "`PIXELS` that the shorter side is resized to; by default the size over the share of --crop")
	crop := flags.Float64("crop", 0.875, "`SHARE` of the resized image's shorter side that the crop takes; by default as the weights' makers have it")
	mode := flags.String("crop-mode", string(datasets.CentreCrop), "`MODE`: center, squash, which changes the aspect, or whole, which keeps it and pads to whole patches")
	interpolation := flags.String("interpolation", string(datasets.Bicubic), "`KERNEL` that images are resized with: bicubic or bilinear")
	var mean, std []float64
	number := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	flags.Var(listFlag(&mean, number), "mean", "`COLOUR` to subtract, as three numbers with commas between them; by default ImageNet's mean")
	flags.Var(listFlag(&std, number), "std", "`COLOUR` to divide by after that; by default ImageNet's standard deviation")
	return func(v *vitFile) {
		p := &v.preprocessing
		refuse(*size < 1 || *size > 8192, "--size %d is not between 1 and 8192", *size)
		if flags.Changed("size") {
			if p.Resize > 0 { // The makers' length belongs to their size, and its share to any.
				p.CropPct, p.Resize = float64(v.size)/float64(p.Resize), 0
			}
			v.size = *size
		}
		if flags.Changed("crop") {
			p.CropPct, p.Resize = *crop, 0
		}
		if flags.Changed("crop-mode") {
			p.CropMode = datasets.CropMode(*mode)
		}
		if flags.Changed("interpolation") {
			p.Interpolation = datasets.Interpolation(*interpolation)
		}
		for _, colour := range []struct {
			name  string
			given []float64
			to    *[3]float64
		}{{"mean", mean, &p.Mean}, {"std", std, &p.Std}} {
			refuse(flags.Changed(colour.name) && (len(colour.given) != 3 || copy(colour.to[:], colour.given) != 3),
				"--%s: want three numbers with commas between them", colour.name)
		}
		if *resize != 0 {
			p.Resize = *resize
		}
		wrong := settings.Check(p)
		refuse(wrong != nil, "--%s", strings.NewReplacer("crop_pct", "crop", "_", "-").Replace(fmt.Sprint(wrong)))
	}
}

// extract computes the features that are still missing, a batch of images of one size at a time. It ends the verb with an error.
func (c featureCall) extract(ctx context.Context, frozen *evaluation.FeatureExtractor, images imageList, store *evaluation.FeatureStore) {
	bar, first := progress.New(os.Stderr, "features", len(images.names)), store.Done()
	defer bar.Close()
	if first > 0 {
		bar.Resumed(first)
	}
	bar.Phase(progress.Compiling)
	var batch []evaluation.Image
	b := evaluation.StoredBatch{Done: first}
	flush := func() {
		values := make([][]byte, len(c.names()))
		for _, blocks := range try.E1(frozen.ExtractAll(batch, c.outputs)) {
			for i, one := range c.values(blocks) {
				values[i] = try.E1(binary.Append(values[i], binary.LittleEndian, one))
			}
			b.Grid = [2]int{blocks[0].Rows, blocks[0].Columns}
		}
		try.E(store.Add(b, values...))
		batch, b = nil, evaluation.StoredBatch{Done: b.Done}
		bar.Phase("")
		bar.Set(b.Done, "")
	}
	read := func(i int) (one imageRead, _ error) {
		one.err = panics.Catch(func() (err error) { one.image, err = images.read(first + i); return err })
		return one, nil
	}
	for one, err := range datasets.InTurn(ctx, len(images.names)-first, c.batch, read) {
		if try.E(err); one.err != nil {
			b.Done, b.Skipped = b.Done+1, append(b.Skipped, one.err.Error())
			continue
		}
		if len(batch) > 0 && (batch[0].Height != one.image.Height || batch[0].Width != one.image.Width) {
			flush()
		}
		batch, b.Images = append(batch, one.image), append(b.Images, images.names[b.Done])
		if b.Done++; len(batch) == c.batch {
			flush()
		}
	}
	if try.E(ctx.Err()); len(batch) > 0 || len(b.Skipped) > 0 {
		flush()
	}
}

// write writes the tensor "class", [images, features], and the tensor "patches", [images, rows, columns, features], or both for each block. Maps of images of
// several sizes are one tensor an image, "patches.0". It ends the verb with an error.
func (c featureCall) write(store *evaluation.FeatureStore, rows []string, preprocessing string) {
	named, dim := map[string]safetensors.RawTensor{}, c.vit.ViT.Dim
	for i, name := range c.names() {
		if !strings.HasSuffix(name, "class") && c.vit.preprocessing.CropMode == datasets.WholeImage {
			row := 0
			for n, b := range store.Batches {
				for place := range b.Images {
					named[fmt.Sprintf("%s.%d", name, row)] = safetensors.RawTensor{
						Shape: []int{b.Grid[0], b.Grid[1], dim}, Write: func(w io.Writer) error { return store.Copy(w, n, i, place) },
					}
					row++
				}
			}
			continue
		}
		shape := []int{len(rows), dim}
		if !strings.HasSuffix(name, "class") {
			first, _ := lo.Find(store.Batches, func(b evaluation.StoredBatch) bool { return len(b.Images) > 0 })
			shape = []int{len(rows), first.Grid[0], first.Grid[1], dim}
		}
		named[name] = safetensors.RawTensor{Shape: shape, Write: func(w io.Writer) (err error) {
			for n := 0; n < len(store.Batches) && err == nil; n++ {
				err = store.Copy(w, n, i, -1)
			}
			return err
		}}
	}
	if base, isNPY := strings.CutSuffix(c.out, ".npy"); isNPY {
		try.E(safetensors.WriteNPY(c.out, named[c.names()[0]]))
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
	try.E(safetensors.WriteRaw(c.out, named, metadata))
}

// imageList is the images whose features are computed.
type imageList struct {
	names    []string
	identity string // Of what is read, so that a call that goes on notices other images.
	read     func(i int) (evaluation.Image, error)
}

// openImages opens the images that inputs name, or a .safetensors with a tensor "images", [count, height, width, 3], of standardised images. The images of a
// single folder are named below it. It ends the verb with an error.
func openImages(inputs []string, v vitFile) (list imageList) {
	if standardised(inputs) {
		return openStandardised(inputs[0])
	}
	paths := findImages(inputs)
	list.names = slices.Clone(paths)
	if info, err := os.Stat(inputs[0]); len(inputs) == 1 && err == nil && info.IsDir() {
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
	list.identity = try.E1(digestOf(path))
	return list
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
