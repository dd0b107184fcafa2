package sccore

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/train"
)

// crossEntropies is the mean over rows of −Σ q log softmax(x/temperature).
func crossEntropies(logits, targets [][]float64, temperature float64) (mean float64) {
	for i, row := range logits {
		sum := 0.0
		for _, x := range row {
			sum += math.Exp(x / temperature)
		}
		for d, x := range row {
			mean -= targets[i][d] * (x/temperature - math.Log(sum)) / float64(len(logits))
		}
	}
	return mean
}

// cosinesOf are (1 + cos)/2 of the places of each image, rows of a matrix, with all places of its partner: a row of places² scores for each image.
func cosinesOf(rows [][]float64, partners []int32) (scores [][]float64) {
	places := len(rows) / len(partners)
	for image, partner := range partners {
		var of []float64
		for i := range places {
			for j := range places {
				of = append(of, (1+dot(unit(rows[image*places+i]), unit(rows[int(partner)*places+j])))/2)
			}
		}
		scores = append(scores, of)
	}
	return scores
}

// passOf runs the branches of a small step. It returns the losses that are on, and matrices of outputs by name: image projections and pooled patches with a row
// for each image and place.
func passOf(t *testing.T, s step, args []any, store *model.Store) (values [len(Losses)]float64, rows map[string][][]float64) {
	t.Helper()
	var names []string
	var on []int
	exec := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, inputs []*Node) (out []*Node) {
		made := s.pass(scope, train.ByName(s.inputs(), inputs))
		names, on = nil, nil
		for i, loss := range made.losses {
			if loss != nil {
				on, out = append(on, i), append(out, loss)
			}
		}
		add := func(name string, x *Node) {
			names, out = append(names, name), append(out, Reshape(x, -1, x.Shape().Dim(-1)))
		}
		for i, name := range []string{"online global", "online local"} {
			for view := range made.online[i].image.Shape().Dim(0) {
				add(name+" image "+string(rune('0'+view)), ofViews(made.online[i].image, view))
			}
		}
		add("target images", made.target[0].image)
		add("positives", made.target[1].image)
		for name, pair := range map[string][3]int{"global 0 1": {0, 0, 1}, "global 1 0": {0, 1, 0}, "local 0 0": {1, 0, 0}, "local 0 1": {1, 0, 1}} {
			group := made.online[pair[0]]
			o := overlapOf(group, made.target[0], pair[1:2], pair[2:])
			add("online patches "+name, o.ofOnline(ofViews(group.patches, pair[1])))
			add("target patches "+name, o.ofTarget(ofViews(made.target[0].patches, pair[2])))
			add("online tokens "+name, o.ofOnline(ofViews(group.tokens, pair[1])))
			if name == "global 0 1" {
				add("target tokens of the same view", o.ofOnline(ofViews(made.target[0].tokens, 0)))
			}
		}
		prototypes := made.online[0].prototypes
		add("prototypes", Reshape(prototypes, prototypes.Shape().Dim(0), -1))
		objects := SliceAxis(ofViews(made.target[0].tokens, 0), 0, AxisRange(0, s.objects))
		whole := Const(objects.Graph(), slices.Repeat([][]float64{{0, 0, 1, 1}}, s.objects))
		pooled := layers.RoIAlign{OutputSize: 3}.Pool(objects, whole, Const(objects.Graph(), make([]float64, s.objects)))
		add("objects", Reshape(pooled, s.objects, -1))
		return out
	})
	defer exec.Finalize()
	out := exec.MustCall(args...)
	for i, loss := range on {
		values[loss] = out[i].Value().(float64)
	}
	rows = map[string][][]float64{}
	for i, name := range names {
		rows[name] = out[len(on)+i].Value().([][]float64)
	}
	return values, rows
}

// TestLossesOfTheStepAgainstReference computes each loss of the method (errata included) in plain Go from what the branches put out: which views meet, which rows one
// Sinkhorn–Knopp covers, and which patches are scored.
func TestLossesOfTheStepAgainstReference(t *testing.T) {
	s, given := smallStep(func(*Config) {})
	args, store := callOf(t, s, given)
	values, rows := passOf(t, s, args, store)

	online := [][][]float64{rows["online global image 0"], rows["online global image 1"], rows["online local image 0"]}
	targets, positives := sinkhornReference(s.Sinkhorn, rows["target images"]), sinkhornReference(s.Sinkhorn, rows["positives"])
	want, pairs := [len(Losses)]float64{}, 0
	for view, logits := range online {
		want[imageConcentration] += crossEntropies(logits, positives, s.Temperature) / 3
		for other := range 2 {
			if other != view {
				want[imageAlignment] += crossEntropies(logits, targets[other*s.objects:(other+1)*s.objects], s.Temperature)
				pairs++
			}
		}
	}
	want[imageAlignment] /= float64(pairs)
	for _, of := range [][]string{{"global 0 1", "global 1 0"}, {"local 0 0", "local 0 1"}} {
		logits := slices.Concat(rows["online patches "+of[0]], rows["online patches "+of[1]])
		targets := slices.Concat(rows["target patches "+of[0]], rows["target patches "+of[1]])
		want[patchAlignment] += crossEntropies(logits, sinkhornReference(s.Sinkhorn, targets), s.Temperature) / 2
	}
	partners := given[inPartners].Value().([]int32)
	p, q := cosinesOf(rows["online patches global 0 1"], partners), cosinesOf(rows["target patches global 0 1"], partners)
	for image := range p {
		loss, _, err := s.CoTAP.Evaluate(p[image], q[image])
		if err != nil {
			t.Fatal(err)
		}
		want[patchConcentration] += loss / float64(len(p))
	}
	for _, prototype := range rows["prototypes"] {
		shares := lo.Map(rows["objects"], func(object []float64, _ int) float64 {
			return math.Exp(dot(unit(prototype), unit(object)) / s.PrototypeTemperature)
		})
		for _, share := range shares {
			want[prototypes] -= share / lo.Sum(shares) * math.Log(share/lo.Sum(shares)) / float64(len(rows["prototypes"])*len(shares))
		}
	}
	for i, value := range values {
		if !(math.Abs(value-want[i]) <= 1e-9) || !(value > 0) {
			t.Errorf("%s: %.15g, reference %.15g", Losses[i].Name, value, want[i])
		}
	}
}

// TestLossesOfPairsAgainstReference does the same for what may stand in CoTAP's place or be its source. Each place of an image ranks the partner's places, and a
// tenth of all pairs of the batch are positives.
func TestLossesOfPairsAgainstReference(t *testing.T) {
	b := testbackend.Go(t)
	ranked := func(loss func(p, q *Node) *Node) func(p, q [][]float64) float64 {
		return func(p, q [][]float64) float64 {
			sorted := slices.Sorted(slices.Values(slices.Concat(q...)))
			least := sorted[len(sorted)-int(math.Round(PositiveShare*float64(len(sorted))))]
			var scores, labels [][]float64
			for image := range p {
				for place := range 9 {
					scores = append(scores, p[image][place*9:(place+1)*9])
					labels = append(labels, lo.Map(q[image][place*9:(place+1)*9], func(q float64, _ int) float64 { return lo.Ternary(q >= least, 1., 0) }))
				}
			}
			return MustExecOnce(b, loss, scores, labels).Value().(float64)
		}
	}
	bce := func(p, q [][]float64) (mean float64) {
		for i := range p {
			for j := range p[i] {
				mean -= (q[i][j]*math.Log(p[i][j]) + (1-q[i][j])*math.Log(1-p[i][j])) / float64(len(p)*len(p[i]))
			}
		}
		return mean
	}
	for name, c := range map[string]struct {
		change         func(c *Config)
		online, target string
		want           func(p, q [][]float64) float64
	}{
		"FastAP":   {func(c *Config) { c.PatchConcentration = WithFastAP }, "online patches", "target patches global 0 1", ranked(losses.DefaultFastAP().Loss)},
		"SmoothAP": {func(c *Config) { c.PatchConcentration = WithSmoothAP }, "online patches", "target patches global 0 1", ranked(losses.DefaultSmoothAP().Loss)},
		"BCE":      {func(c *Config) { c.PatchConcentration = WithBCE }, "online patches", "target patches global 0 1", bce},
		"BCE of the backbone's, from the same view": {func(c *Config) {
			c.PatchConcentration, c.Correspondences = WithBCE, Correspondences{From: FromBackbone, SameView: true}
		}, "online tokens", "target tokens of the same view", bce},
	} {
		s, given := smallStep(c.change)
		args, store := callOf(t, s, given)
		values, rows := passOf(t, s, args, store)
		partners := given[inPartners].Value().([]int32)
		want := c.want(cosinesOf(rows[c.online+" global 0 1"], partners), cosinesOf(rows[c.target], partners))
		if got := values[patchConcentration]; !(math.Abs(got-want) <= 1e-9) || !(got > 0) {
			t.Errorf("%s: %.15g, reference %.15g", name, got, want)
		}
	}
}
