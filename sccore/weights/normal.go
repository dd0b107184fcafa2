package weights

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// normalize brings the parts that families store in different ways to ours:
//
//   - the bias of queries, keys and values with a mask, DINOv3's, to the biases that count;
//   - the position embedding of [CLS] to a part of the [CLS] token if there are registers, as in timm, and to zeros if there are none.
func normalize(all map[string]renamed) error {
	for name, mask := range all {
		block, isMask := strings.CutSuffix(name, maskSuffix)
		if !isMask {
			continue
		}
		delete(all, name)
		if err := unmask(all, block+".attn.", mask); err != nil {
			return fmt.Errorf("key %s: %w", mask.key(), err)
		}
	}
	positions, hasPositions := all["pos_embed"]
	class := all["cls_token"]
	if !hasPositions || len(class.Shape()) != 3 || len(positions.Shape()) != 3 {
		return nil
	}
	shape := positions.Shape()
	if _, err := entries(shape); err != nil {
		return fmt.Errorf("key %s: %w", positions.key(), err)
	}
	_, registers := all["reg_token"]
	switch withClass, without := isSquare(shape[1]-1), isSquare(shape[1]); {
	case registers && withClass && shape[0] == 1 && slices.Equal(class.Shape(), []int{1, 1, shape[2]}):
		first := cut(positions, 1, 0, 1)
		all["cls_token"] = renamed{sum(class, first), slices.Concat(class.keys, positions.keys), "with the position embedding of [CLS]"}
		all["pos_embed"] = renamed{cut(positions, 1, 1, shape[1]), positions.keys, "without that of [CLS]"}
	case !registers && !withClass && without && shape[0] == 1:
		padded := slices.Clone(shape)
		padded[1]++
		all["pos_embed"] = renamed{derived{padded, func() ([]float32, error) {
			values, err := positions.Floats()
			return append(make([]float32, shape[2]), values...), err
		}}, positions.keys, "with zeros for [CLS]"}
	}
	return nil
}

func isSquare(n int) bool { return n > 0 && root(n)*root(n) == n }

// root is the square root of a number, rounded.
func root(n int) int { return int(math.Round(math.Sqrt(float64(max(n, 0))))) }

// sum adds two tensors of one shape.
func sum(a, b tensorSource) tensorSource {
	return derived{a.Shape(), func() ([]float32, error) {
		x, err := a.Floats()
		if err != nil {
			return nil, err
		}
		y, err := b.Floats()
		out := make([]float32, len(x))
		for i := range y {
			out[i] = x[i] + y[i]
		}
		return out, err
	}}
}

// unmask replaces a bias by its parts that a mask leaves. Published masks leave out the keys; where the mask holds NaN, its code's initial value, they
// are meant too.
func unmask(all map[string]renamed, attention string, mask renamed) error {
	bias, ok := all[attention+"qkv.bias"]
	if !ok || len(bias.Shape()) != 1 || !slices.Equal(bias.Shape(), mask.Shape()) || bias.Shape()[0]%3 != 0 {
		return fmt.Errorf("has shape %v and fits no bias", mask.Shape())
	}
	if _, err := entries(mask.Shape()); err != nil {
		return err
	}
	values, err := mask.Floats()
	if err != nil {
		return err
	}
	dim := len(values) / 3
	undefined := slices.ContainsFunc(values, func(x float32) bool { return x != x })
	for i, x := range values {
		want := float32(1)
		if i/dim == 1 {
			want = 0
		}
		if x != want && !undefined {
			return fmt.Errorf("entry %d is %v, want 0 for keys and 1 for queries and values", i, x)
		}
	}
	delete(all, attention+"qkv.bias")
	keys := slices.Concat(bias.keys, mask.keys)
	all[attention+"q_bias"] = renamed{cut(bias, 0, 0, dim), keys, "that of queries"}
	all[attention+"v_bias"] = renamed{cut(bias, 0, 2*dim, 3*dim), keys, "that of values"}
	return nil
}
