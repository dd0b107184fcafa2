package nb

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/janpfeifer/gonb/gonbui"
)

// grace is the time that a cell may take to stop. The kernel kills it after five seconds.
const grace = 4 * time.Second

var (
	work, cancelWork = context.WithCancel(context.Background())
	workBegun        atomic.Bool
)

// Context returns the context of the cell's work. It is cancelled when the cell is interrupted. The work then writes a checkpoint, if it has
// one, and returns, and [Check] ends the cell.
func Context() context.Context {
	workBegun.Store(true)
	return work
}

func init() {
	if gonbui.IsNotebook {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt)
		go func() {
			<-signals
			cancelWork()
			if workBegun.Load() {
				time.Sleep(grace) // XLA cannot be interrupted while it compiles.
			}
			stopped()
		}()
	}
}

// interrupted reports whether an error comes from interrupted work.
func interrupted(err error) bool { return work.Err() != nil && errors.Is(err, context.Canceled) }

// stopped ends an interrupted cell with one line.
var stopped = sync.OnceFunc(func() {
	line := "Stopped."
	if workBegun.Load() {
		line += " Checkpoint kept, run the cell again to continue."
	}
	HTML("<b>" + line + "</b>")
	os.Exit(0) // Another status adds red lines without information. Neither status stops the following cells.
})
