package tensorboard_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/sccore/tensorboard"
)

func ExampleEncode() {
	dir, err := os.MkdirTemp("", "curves")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	content := tensorboard.Encode([]tensorboard.Point{
		{Step: 0, Scalars: map[string]float64{"loss/total": 4.2}},
		{Step: 1, WallTime: 1, Scalars: map[string]float64{"loss/total": 3.9, "metrics/knn": 41.5}},
	})
	file := filepath.Join(dir, tensorboard.FilePrefix+"run")
	fmt.Println(os.WriteFile(file, content, 0o644), "now: tensorboard --logdir DIR")
	// Output: <nil> now: tensorboard --logdir DIR
}
