package progress_test

import (
	"fmt"
	"os"
	"time"

	"github.com/semcon/semcon/sccore/progress"
)

// A log, such as standard output here, gets a line when the work ends.
func ExampleNew() {
	bar := progress.New(os.Stdout, "features", 3)
	for i := range 3 {
		bar.Set(i+1, fmt.Sprintf("image %d", i))
	}
	bar.Close()
	// Output: features  3/3  100%  0.0s  image 2
}

// A renderer of its own keeps a State and draws it in any form.
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
