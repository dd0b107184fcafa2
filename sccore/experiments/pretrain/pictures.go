package pretrain

import (
	"cmp"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/views"
	"github.com/semcon/semcon/sccore/weights"
)

// Viewer draws what encoders of the experiment pretrain make of some scenes.
type Viewer struct {
	config  Config
	backend compute.Backend
	scenes  datasets.Source
	images  []evaluation.Image
	shown   []image.Image
}

// NewViewer takes the first count scenes of a profile's data, count at least 2: the synthetic ones that nothing is trained on, or those of
// the folder dir.
func NewViewer(b compute.Backend, profile study.Profile, dir string, count int) (*Viewer, error) {
	config := ProfileConfig(profile)
	data, err := Open(dir, config)
	if err != nil {
		return nil, err
	}
	w := &Viewer{config: config, backend: b, scenes: data.Train.Scenes}
	if data.Scenes[1] != nil {
		w.scenes = data.Scenes[1].Images
	}
	for im, err := range evaluation.ImagesOf(w.scenes, config.Size, count) {
		if err != nil {
			return nil, err
		}
		w.images, w.shown = append(w.images, im), append(w.shown, figures.Picture(im.Colours(), im.Height, im.Width))
	}
	if len(w.images) < max(count, 2) {
		return nil, fmt.Errorf("%d scenes to show, want %d", len(w.images), max(count, 2))
	}
	return w, nil
}

// enlargement is how often each pixel of a scene is repeated: small scenes are shown about 130 pixels large.
func (w *Viewer) enlargement() int { return max(1, 130/w.config.Size) }

// Views draws each scene with its two global views as boxes, and the views with what both see.
func (w *Viewer) Views(seed uint64) (figures.ImageGrid, error) {
	m, side := w.config.Second.Views, w.config.Second.Canvas
	m.Locals = 0
	sheet := figures.ImageGrid{
		Title:        "Two global views of each scene (blue, vermillion) and the part that both see (green)",
		ColumnLabels: []string{"scene", "first view", "second view"}, Scale: 1,
	}
	exec, err := graph.NewExec(w.backend, func(pixels, params *graph.Node) []*graph.Node {
		half := func(i int) *graph.Node { return graph.Slice(params, graph.AxisRange(i, i+1)) }
		first, second := views.Overlap(half(0), half(1))
		boxes, _ := views.Boxes(params)
		return []*graph.Node{views.Apply(pixels, params, m.GlobalCropSize), boxes, graph.Concatenate([]*graph.Node{first, second}, 0)}
	})
	if err != nil {
		return sheet, err
	}
	defer exec.Finalize()
	for i := range w.images {
		canvas := make([]uint8, side*side*3)
		extent, err := w.scenes.Read(i, canvas, side)
		if err != nil {
			return sheet, err
		}
		params, _ := m.Draw(seed, 0, []int32{int32(i)}, []datasets.Size{extent})
		out, err := exec.Exec(tensors.FromFlatDataAndDimensions(canvas, 1, side, side, 3), params)
		if err != nil {
			return sheet, err
		}
		pixels, boxes, overlap := tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1]), tensors.MustCopyFlatData[float32](out[2])
		box := func(rows []float32, i int) figures.Box {
			r := rows[4*i:]
			return figures.Box{Top: float64(r[0]), Left: float64(r[1]), Height: float64(r[2]), Width: float64(r[3])}
		}
		inScene := func(i int) figures.Box { // Of pixels of the canvas.
			b := box(boxes, i)
			return figures.Box{Top: b.Top / float64(side), Left: b.Left / float64(side), Height: b.Height / float64(side), Width: b.Width / float64(side)}
		}
		first, second := inScene(0), inScene(1)
		both := figures.Box{Top: max(first.Top, second.Top), Left: max(first.Left, second.Left)}
		both.Height = min(first.Top+first.Height, second.Top+second.Height) - both.Top
		both.Width = min(first.Left+first.Width, second.Left+second.Width) - both.Left
		scene := make([]float32, len(canvas))
		for p, x := range canvas {
			scene[p] = float32(x) / 255
		}
		row := []image.Image{figures.Outlined(figures.Picture(scene, side, side), max(1, 190/side), first, second, both)}
		one := len(pixels) / 2
		for v := range 2 {
			view := figures.Picture(pixels[v*one:(v+1)*one], m.GlobalCropSize, m.GlobalCropSize)
			row = append(row, figures.Outlined(view, max(1, 190/m.GlobalCropSize), figures.Box{}, figures.Box{}, box(overlap, v)))
		}
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, fmt.Sprintf("scene %d", i)), append(sheet.Images, row)
	}
	return sheet, nil
}

// seen is what an encoder makes of the viewer's scenes.
type seen struct {
	rows, columns, dim int
	patches            [][]float64   // Of all patches, scene by scene. [scenes·rows·columns][dim]
	attention          [][][]float64 // Of [CLS] to each patch in the last block, by scene and head. [scenes][heads][rows·columns]
	filter             [][]float64   // What each patch takes of each prototype, by scene; nil without filter. [scenes][heads·rows·columns·Prototypes]
}

// see runs the encoder in a file, or one with random weights if the name is empty.
func (w *Viewer) see(file string) (s seen, err error) {
	v, err := encoder.ViTByName(w.config.Second.Encoder)
	if err != nil {
		return seen{}, err
	}
	v.Positions, v.Prototypes = w.config.Second.Positions, w.config.Second.Prototypes
	store := model.NewStore()
	defer store.Finalize()
	if file == "" {
		if err := store.SetRNGStateFromSeed(0); err != nil {
			return seen{}, err
		}
	} else {
		read, err := weights.ReadViT(file, v, "")
		if err != nil {
			return seen{}, err
		}
		if len(read.Missing) > 0 {
			v.Prototypes = 0 // Of a stage without the filter.
		}
		if err := read.Apply(store, "/"); err != nil {
			return seen{}, err
		}
	}
	caught := exceptions.TryCatch[error](func() { s, err = w.run(v, store) })
	if caught != nil {
		err = caught
	}
	return s, err
}

func (w *Viewer) run(v encoder.ViT, store *model.Store) (seen, error) {
	exec, err := model.NewExec(w.backend, store, func(scope *model.Scope, images *graph.Node) []*graph.Node {
		tokens := v.Tokens(scope, images)
		out := []*graph.Node{tokens.Patches, tokens.Attention[v.Depth-1]}
		if tokens.FilterAttention != nil {
			out = append(out, tokens.FilterAttention)
		}
		return out
	})
	if err != nil {
		return seen{}, err
	}
	defer exec.Finalize()
	s := seen{dim: v.Dim}
	for _, im := range w.images {
		out, err := exec.Exec(tensors.FromFlatDataAndDimensions(im.Pixels, 1, im.Height, im.Width, 3))
		if err != nil {
			return seen{}, err
		}
		s.rows, s.columns = out[0].Shape().Dim(1), out[0].Shape().Dim(2)
		places := s.rows * s.columns
		for patch := range slices.Chunk(float64s(out[0]), v.Dim) {
			s.patches = append(s.patches, patch)
		}
		var heads [][]float64
		for head := range slices.Chunk(float64s(out[1]), (1+places)*(1+places)) {
			heads = append(heads, head[1:1+places]) // The first row is what [CLS] attends to.
		}
		s.attention = append(s.attention, heads)
		if len(out) > 2 {
			s.filter = append(s.filter, float64s(out[2]))
		}
	}
	return s, nil
}

func float64s(tensor *tensors.Tensor) (values []float64) {
	for _, x := range tensors.MustCopyFlatData[float32](tensor) {
		values = append(values, float64(x))
	}
	return values
}

// ofScene are the patches of a scene.
func (s seen) ofScene(i int) [][]float64 {
	places := s.rows * s.columns
	return s.patches[i*places : (i+1)*places]
}

// NamedEncoder is a file of an encoder and what a figure calls it. An empty file is an encoder with random weights.
type NamedEncoder struct{ Name, File string }

// Components draws the patch features of encoders by their three principal components over all scenes, as red, green and blue.
func (w *Viewer) Components(encoders ...NamedEncoder) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{Title: "Patch features: three principal components as colours", ColumnLabels: []string{"scene"}, Scale: w.enlargement()}
	for _, shown := range w.shown {
		sheet.Images = append(sheet.Images, []image.Image{shown})
	}
	for _, e := range encoders {
		s, err := w.see(e.File)
		if err != nil {
			return sheet, err
		}
		components, err := stats.PrincipalComponents(s.patches, 3)
		if err != nil {
			return sheet, fmt.Errorf("%s: %w", e.Name, err)
		}
		var low, high [3]float64 // Of nineteen in twenty patches.
		for c := range 3 {
			var values []float64
			for _, patch := range components {
				values = append(values, patch[c])
			}
			slices.Sort(values)
			low[c], high[c] = values[len(values)/40], values[len(values)-1-len(values)/40]
		}
		sheet.ColumnLabels = append(sheet.ColumnLabels, e.Name)
		places := s.rows * s.columns
		for i, im := range w.images {
			pixels := make([]float32, im.Height*im.Width*3)
			for p := range im.Height * im.Width {
				patch := components[i*places+p/im.Width*s.rows/im.Height*s.columns+p%im.Width*s.columns/im.Width]
				for c := range 3 {
					pixels[3*p+c] = float32(min(max((patch[c]-low[c])/max(high[c]-low[c], 1e-12), 0), 1))
				}
			}
			sheet.Images[i] = append(sheet.Images[i], figures.Picture(pixels, im.Height, im.Width))
		}
	}
	return sheet, nil
}

// Correspondences draws, for the patch in the middle of each scene but the last, what patches of the next scene encoders hold to be like it: half
// the cosine similarity of patch features plus a half.
func (w *Viewer) Correspondences(encoders ...NamedEncoder) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{Title: "What corresponds in another scene to the patch that is marked", ColumnLabels: []string{"patch", "other scene"}, Scale: 1}
	scale := w.enlargement()
	for i := range len(w.shown) - 1 {
		sheet.Images = append(sheet.Images, []image.Image{nil, figures.Outlined(w.shown[i+1], scale)})
	}
	for _, e := range encoders {
		s, err := w.see(e.File)
		if err != nil {
			return sheet, err
		}
		sheet.ColumnLabels = append(sheet.ColumnLabels, e.Name)
		row, column := s.rows/2, s.columns/2
		height, width := 1/float64(s.rows), 1/float64(s.columns)
		for i := range sheet.Images {
			query := s.ofScene(i)[row*s.columns+column]
			var scores []float64
			for _, patch := range s.ofScene(i + 1) {
				scores = append(scores, cosine(query, patch)/2+0.5)
			}
			marked := figures.Box{Top: float64(row) * height, Left: float64(column) * width, Height: height, Width: width}
			sheet.Images[i][0] = figures.Outlined(w.shown[i], scale, figures.Box{}, marked)
			bounds := w.shown[i+1].Bounds()
			sheet.Images[i] = append(sheet.Images[i], figures.Heat(scores, s.columns, scale*bounds.Dy(), scale*bounds.Dx()))
		}
	}
	return sheet, nil
}

func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for d := range a {
		ab, aa, bb = ab+a[d]*b[d], aa+a[d]*a[d], bb+b[d]*b[d]
	}
	return ab / math.Sqrt(max(aa*bb, 1e-24))
}

// Attention draws what [CLS] attends to in the last block, the mean over heads and each of the first two; and how much each patch takes of the
// three prototypes of the Object-Aware Filter that patches differ in most.
func (w *Viewer) Attention(file string) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{Title: "Attention of [CLS], and of patches to prototypes of the Object-Aware Filter", ColumnLabels: []string{"scene", "[CLS], all heads", "head 1", "head 2"}, Scale: w.enlargement()}
	s, err := w.see(file)
	if err != nil {
		return sheet, err
	}
	places := s.rows * s.columns
	// prototypeMaps are the means over heads, [scenes][Prototypes][rows·columns].
	var prototypeMaps [][][]float64
	for _, of := range s.filter {
		prototypes := w.config.Second.Prototypes
		heads := len(of) / (places * prototypes)
		maps := make([][]float64, prototypes)
		for m := range maps {
			maps[m] = make([]float64, places)
			for h := range heads {
				for p := range places {
					maps[m][p] += of[(h*places+p)*prototypes+m] / float64(heads)
				}
			}
		}
		prototypeMaps = append(prototypeMaps, maps)
	}
	var chosen []int
	if prototypeMaps != nil {
		for m := range prototypeMaps[0] {
			chosen = append(chosen, m)
		}
		spread := func(m int) float64 {
			var all []float64
			for _, maps := range prototypeMaps {
				all = append(all, maps[m]...)
			}
			return stats.MeanInterval(all).SD
		}
		slices.SortStableFunc(chosen, func(a, b int) int { return cmp.Compare(spread(b), spread(a)) })
		chosen = chosen[:min(3, len(chosen))]
		for _, m := range chosen {
			sheet.ColumnLabels = append(sheet.ColumnLabels, fmt.Sprintf("prototype %d", m))
		}
	}
	for i, im := range w.images {
		mean := make([]float64, places)
		for _, head := range s.attention[i] {
			for p, x := range head {
				mean[p] += x / float64(len(s.attention[i]))
			}
		}
		row := []image.Image{w.shown[i]}
		for _, values := range append([][]float64{mean}, s.attention[i][:2]...) {
			row = append(row, figures.Heat(values, s.columns, im.Height, im.Width))
		}
		for _, m := range chosen {
			row = append(row, figures.Heat(prototypeMaps[i][m], s.columns, im.Height, im.Width))
		}
		sheet.Images = append(sheet.Images, row)
	}
	return sheet, nil
}
