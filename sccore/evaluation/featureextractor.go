package evaluation

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
)

// Image is one image as an encoder takes it.
type Image struct {
	Name          string // For errors; may be empty.
	Height, Width int
	Pixels        []float32 // [Height, Width, 3], normalised.
}

// NewImage normalises pixels, [height, width, 3] of red, green and blue, as a preprocessing says. It panics if the number of pixels is wrong.
func NewImage(pixels []uint8, size datasets.Size, by datasets.Preprocessing) Image {
	if len(pixels) != size.Height*size.Width*3 {
		panic(fmt.Sprintf("evaluation: %d bytes for an image of %d×%d pixels", len(pixels), size.Height, size.Width))
	}
	return Image{Height: size.Height, Width: size.Width, Pixels: by.Normalize(pixels)}
}

// RGB undoes [NewImage]: [Height, Width, 3] in [0, 1].
func (im Image) RGB(by datasets.Preprocessing) []float32 {
	return lo.Map(im.Pixels, func(x float32, i int) float32 { return min(max(x*float32(by.Std[i%3])+float32(by.Mean[i%3]), 0), 1) })
}

// Features are the features of one image.
type Features struct {
	Class         []float32 // The [CLS] token, [Dim].
	Rows, Columns int
	Patches       []float32 // The patch tokens, or maps resized from them, [Rows, Columns, Dim]; nil unless asked for.
}

// checkFinite returns an error that names the first value that is NaN or infinite.
func checkFinite(values []float32, what string) error {
	if err := safetensors.CheckFinite(values); err != nil {
		return fmt.Errorf("its %s not finite: %w", what, err)
	}
	return nil
}

// FeatureExtractor runs a frozen encoder on images.
type FeatureExtractor struct {
	ViT encoder.ViT
	// Preprocessing is what images of [ImagesOf] and crops pass through on their way to the encoder: the default, unless the caller sets what its weights
	// were made with.
	Preprocessing datasets.Preprocessing
	// Skipped, if not nil, is called for each picture that [Encode] and the evaluators cannot read and take as black.
	Skipped func(datasets.Skipped)

	backend compute.Backend
	store   *model.Store
	scope   string
	batch   int
	execs   map[string]*model.Exec // By their outputs.
}

// NewFeatureExtractor returns an extractor for the encoder whose weights are in the store under scope ("/online", or "/" for the root). It runs batch images at
// a time. The error names a weight that is missing or has another shape. The store remains the caller's: the extractor uses the weights it holds when it runs.
func NewFeatureExtractor(b compute.Backend, v encoder.ViT, store *model.Store, scope string, batch int) (*FeatureExtractor, error) {
	if err := settings.Check(v); err != nil || batch < 1 {
		return nil, cmp.Or(err, fmt.Errorf("feature extractor %s: batch of %d images", v.Name, batch))
	}
	for _, weight := range v.Weights() {
		path := model.JoinPath(scope, weight.Path)
		variable := store.GetVariable(path)
		if variable == nil {
			return nil, fmt.Errorf("feature extractor %s: no weight %s", v.Name, path)
		}
		if err := variable.Shape().CheckDims(weight.Shape...); err != nil {
			return nil, fmt.Errorf("feature extractor %s: weight %s is %s, not %v", v.Name, path, variable.Shape(), weight.Shape)
		}
	}
	return &FeatureExtractor{
		ViT: v, Preprocessing: datasets.DefaultPreprocessing(), backend: b, store: store, scope: scope, batch: batch, execs: map[string]*model.Exec{},
	}, nil
}

// Close frees the device's memory except for the store's.
func (f *FeatureExtractor) Close() {
	for _, exec := range f.execs {
		exec.Finalize()
	}
}

// Extract yields the features of each image in turn, of each block that is asked for, in the order of [Outputs].Blocks. It holds one batch of images at a time,
// so memory does not grow with their number. Images may have any size that is a whole number of patches. A graph is compiled once per size, and consecutive
// images of one size share a batch. It ends with the first error, of images or its own. Features that are not finite are an error that names the image.
func (f *FeatureExtractor) Extract(images iter.Seq2[Image, error], outputs Outputs) iter.Seq2[[]Features, error] {
	return func(yield func([]Features, error) bool) {
		if err := outputs.Check(f.ViT); err != nil {
			yield(nil, err)
			return
		}
		var pending []Image
		done := 0
		flush := func() bool {
			if len(pending) == 0 {
				return true
			}
			all, err := f.run(pending, outputs)
			for i, image := range all {
				for _, features := range image {
					bad := cmp.Or(checkFinite(features.Class, "[CLS] feature is"), checkFinite(features.Patches, "patch features are"))
					if bad != nil && err == nil {
						err = fmt.Errorf("image %s: %w", cmp.Or(pending[i].Name, strconv.Itoa(done+i)), bad)
					}
				}
			}
			done, pending = done+len(pending), pending[:0]
			if err != nil {
				yield(nil, err)
				return false
			}
			for _, one := range all {
				if !yield(one, nil) {
					return false
				}
			}
			return true
		}
		for im, err := range images {
			switch {
			case err != nil:
			case im.Height < 1 || im.Width < 1 || im.Height%f.ViT.PatchSize != 0 || im.Width%f.ViT.PatchSize != 0:
				err = fmt.Errorf("feature extractor %s: an image of %d×%d pixels is not a whole number of patches of %d", f.ViT.Name, im.Height, im.Width, f.ViT.PatchSize)
			case len(im.Pixels) != im.Height*im.Width*3:
				err = fmt.Errorf("feature extractor %s: %d values for an image of %d×%d pixels", f.ViT.Name, len(im.Pixels), im.Height, im.Width)
			}
			if err != nil {
				if flush() {
					yield(nil, err)
				}
				return
			}
			if len(pending) > 0 && (pending[0].Height != im.Height || pending[0].Width != im.Width) && !flush() {
				return
			}
			if pending = append(pending, im); len(pending) == f.batch && !flush() {
				return
			}
		}
		flush()
	}
}

// ExtractAll is [FeatureExtractor.Extract] for images in memory.
func (f *FeatureExtractor) ExtractAll(images []Image, outputs Outputs) (all [][]Features, err error) {
	defer try.Handle(&err)
	in := func(yield func(Image, error) bool) {
		for _, im := range images {
			if !yield(im, nil) {
				return
			}
		}
	}
	for features, err := range f.Extract(in, outputs) {
		try.E(err)
		all = append(all, features)
	}
	return all, nil
}

// run returns the features of at most a batch of images of one size.
func (f *FeatureExtractor) run(images []Image, outputs Outputs) (all [][]Features, err error) {
	defer try.Handle(&err)
	height, width := images[0].Height, images[0].Width
	one := height * width * 3
	values := make([]float32, f.batch*one) // A partial batch is padded with zeros, since another shape would compile again.
	for i, im := range images {
		copy(values[i*one:], im.Pixels)
	}
	flat := try.E1(f.call(fmt.Sprint(outputs), tensors.FromFlatDataAndDimensions(values, f.batch, height, width, 3), f.graph(outputs)))
	dim := f.ViT.Dim
	rows, columns := outputs.mapSize(height/f.ViT.PatchSize, width/f.ViT.PatchSize)
	for i := range images {
		var features []Features
		for left := flat; len(left) > 0; {
			one := Features{Class: left[0][i*dim : (i+1)*dim : (i+1)*dim], Rows: rows, Columns: columns}
			if left = left[1:]; outputs.Patches {
				size := rows * columns * dim
				one.Patches, left = left[0][i*size:(i+1)*size:(i+1)*size], left[1:]
			}
			features = append(features, one)
		}
		all = append(all, features)
	}
	return all, nil
}

// Outputs says which features an extractor returns beside [CLS].
type Outputs struct {
	Patches bool
	// Blocks are the blocks after which features are taken, counted from 1; by default the last one. The final normalisation is applied to each, as in
	// get_intermediate_layers of DINO and DINOv2.
	Blocks []int
	// Resolution resizes maps of patch features bilinearly, so that their shorter side has this many cells. 0 keeps a cell for each patch.
	Resolution int
	// Keys takes the keys of a block's attention instead of patch tokens, see [encoder.Tokens].
	Keys bool `json:",omitzero"`
}

// Check returns an error that names what a transformer does not have.
func (o Outputs) Check(v encoder.ViT) error {
	for _, block := range o.Blocks {
		if block < 1 || block > v.Depth {
			return fmt.Errorf("%s has no block %d, only 1 to %d", v.Name, block, v.Depth)
		}
	}
	if o.Resolution < 0 || o.Resolution > 1<<13 {
		return fmt.Errorf("resolution %d is not between 0 and %d", o.Resolution, 1<<13)
	}
	return nil
}

// mapSize is the size of maps of that many rows and columns of patches.
func (o Outputs) mapSize(rows, columns int) (int, int) {
	if o.Resolution == 0 {
		return rows, columns
	}
	short := min(rows, columns)
	resized := func(length int) int { return (length*o.Resolution + short/2) / short }
	return resized(rows), resized(columns)
}

// graph makes the encoder with these outputs: [CLS] and, if asked for, maps, block by block.
func (f *FeatureExtractor) graph(o Outputs) func(root *model.Scope, images *Node) (out []*Node) {
	return func(root *model.Scope, images *Node) (out []*Node) {
		for _, block := range lo.CoalesceSliceOrEmpty(o.Blocks, []int{f.ViT.Depth}) {
			// A transformer of fewer blocks. Backends compute once what several of them share.
			v := f.ViT
			v.Depth = block
			if v.BlocksAfterFilter -= f.ViT.Depth - block; v.BlocksAfterFilter < 0 {
				v.Prototypes, v.BlocksAfterFilter = 0, 0 // The filter is in a later block.
			}
			tokens := v.Tokens(root.Store().Scope(f.scope), images)
			if out = append(out, tokens.Class); !o.Patches {
				continue
			}
			maps := tokens.Patches
			if o.Keys {
				keys := tokens.Keys[block-1]
				maps = Reshape(SliceAxis(keys, 1, AxisRange(1+v.Registers)), maps.Shape().Dimensions...)
			}
			if rows, columns := o.mapSize(maps.Shape().Dim(1), maps.Shape().Dim(2)); !slices.Equal(maps.Shape().Dimensions[1:3], []int{rows, columns}) {
				maps = layers.ResizeBilinear(maps, rows, columns)
			}
			out = append(out, maps)
		}
		return out
	}
}

// call computes the outputs of a graph of images, [batch, height, width, 3]. A graph is compiled once for each key.
func (f *FeatureExtractor) call(key string, images *tensors.Tensor, graph func(root *model.Scope, images *Node) []*Node) (flat [][]float32, err error) {
	err = backend.Catch(func() (err error) {
		defer try.Handle(&err)
		if f.execs[key] == nil {
			f.execs[key] = try.E1(model.NewExec(f.backend, f.store, graph)).SetMaxCache(-1) // Images have any number of sizes.
		}
		for _, tensor := range try.E1(f.execs[key].Call(images)) {
			flat = append(flat, tensors.MustCopyFlatData[float32](tensor))
			tensor.FinalizeAll()
		}
		return nil
	})
	return flat, err
}

// float64s converts values.
func float64s(values []float32) []float64 {
	return lo.Map(values, func(x float32, _ int) float64 { return float64(x) })
}

// Attention are attention maps of one image: of [CLS] in the last block, and of patches in the Object-Aware Filter. Each is [Rows·Columns], row by row.
type Attention struct {
	Rows, Columns int
	// Class has the attention of [CLS] to each patch, by head. That to [CLS] itself and to registers is left out, so that a map sums to less than 1.
	Class [][]float64
	// Filter has the attention of each patch to a prototype of the Object-Aware Filter, by prototype and head; nil without a filter. At a patch, the
	// maps of a head sum to 1 over the prototypes.
	Filter [][][]float64
}

// Attention computes the maps of an image, whose height and width are whole numbers of patches. A graph is compiled once per size. Maps that are not
// finite are an error that names the image.
func (f *FeatureExtractor) Attention(im Image) (a Attention, err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("image %s: %w", im.Name, err) })
	patch, prefix := f.ViT.PatchSize, 1+f.ViT.Registers
	a.Rows, a.Columns = im.Height/patch, im.Width/patch
	if a.Rows < 1 || a.Columns < 1 || im.Height%patch != 0 || im.Width%patch != 0 {
		return a, fmt.Errorf("image %s: %d×%d pixels are not a whole number of patches of %d", im.Name, im.Height, im.Width, patch)
	}
	out := try.E1(f.call("attention", tensors.FromFlatDataAndDimensions(im.Pixels, 1, im.Height, im.Width, 3), func(root *model.Scope, images *Node) []*Node {
		tokens := f.ViT.Tokens(root.Store().Scope(f.scope), images)
		of := SliceAxis(tokens.Attention[f.ViT.Depth-1], 2, AxisElem(0)) // The queries of [CLS].
		out := []*Node{SliceAxis(of, 3, AxisRange(prefix))}
		if tokens.FilterAttention != nil {
			out = append(out, TransposeAllAxes(tokens.FilterAttention, 0, 4, 1, 2, 3)) // [1, Prototypes, NumHeads, rows, columns]
		}
		return out
	}))
	var maps [2][][]float64
	for i, values := range out {
		try.E(checkFinite(values, "attention is"))
		for one := range slices.Chunk(values, a.Rows*a.Columns) {
			maps[i] = append(maps[i], float64s(one))
		}
	}
	a.Class, a.Filter = maps[0], slices.Collect(slices.Chunk(maps[1], f.ViT.NumHeads))
	return a, nil
}
