package progress_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/semcon/semcon/sccore/progress"
)

// A log gets a line when the work ends.
func ExampleNew() {
	var log strings.Builder
	bar := progress.New(&log, "features", 3)
	for i := range 3 {
		bar.Set(i+1, fmt.Sprintf("image %d", i))
	}
	bar.Close()
	line, _, _ := strings.Cut(log.String(), "%") // The time follows.
	fmt.Println(line + "%")
	// Output: features  3/3  100%
}

// A custom renderer keeps a State and draws it.
func ExampleState() {
	start := time.Now()
	s := progress.NewState("pretrain", 100, start)
	s.Phase(progress.Training, start)
	for i := range 40 {
		s.Set(i+1, "loss 0.31", start.Add(time.Duration(i)*time.Second/4))
	}
	fmt.Println(s.Summary())
	// Output: 40/100  40%  training  4/s  9.8s, 15s left  loss 0.31
}
