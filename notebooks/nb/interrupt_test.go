package nb

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/janpfeifer/gonb/gonbui/protocol"
	"github.com/janpfeifer/must"
)

// train is a cell that shows that it has begun, works, and returns the error of its context, as experiments do.
func train(work func()) {
	HTML("begun")
	work()
	must.M(Context().Err())
}

// TestAnInterruptedCellSaysHowToGoOn interrupts work that watches its context, work that does not, such as XLA while it compiles, and work
// without a checkpoint. None ends as a failure, which would add red lines.
func TestAnInterruptedCellSaysHowToGoOn(t *testing.T) {
	const goOn = "Stopped. Checkpoint kept, run the cell again to continue."
	for _, test := range []struct{ cell, want string }{{"trains", goOn}, {"busy", goOn}, {"sleeps", "Stopped."}} {
		t.Run(test.cell, func(t *testing.T) {
			t.Parallel()
			var begun time.Time
			sent, stderr, err := listenTo(t, test.cell, func(message protocol.DisplayData) bool {
				begun = time.Now()
				return message.Data[protocol.MIMETextPlain] == "begun"
			})
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it ended after %s", took)
			}
			if last := sent[len(sent)-1].Data[protocol.MIMETextPlain]; last != test.want || stderr != "" || err != nil {
				t.Errorf("it shows %q, says %q, and ends with %v", last, stderr, err)
			}
		})
	}
}

// TestAnErrorNamesTheLineOfTheCell relies on the generated _testmain.go, which is package main in a test.
func TestAnErrorNamesTheLineOfTheCell(t *testing.T) {
	_, stderr, err := listenTo(t, "check", nil)
	lines := strings.Split(stderr, "\n")
	if !errors.As(err, new(*exec.ExitError)) || len(lines) != 3 || lines[0] != "error: data/x.png: truncated" ||
		!strings.HasPrefix(lines[1], "\t_testmain.go:") {
		t.Errorf("it says %q and ends with %v", stderr, err)
	}
}
