package nb

import (
	"encoding/gob"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/janpfeifer/gonb/gonbui/protocol"
	"github.com/semcon/semcon/sccore/progress"
)

// showEverything is a cell that uses each kind of output.
func showEverything() {
	HTML("<table><tr><td>a</td><td>b</td></tr></table>")
	show(picture([]byte(`<svg width="675pt" height="300pt" viewBox="0 0 675 300"/>`), []byte("png")), "")
	display := NewDisplay()
	show(picture([]byte("<svg>1</svg>"), nil), display.id)
	show(page("<p>2</p>"), display.id)
	bar := Progress("train", 1000)
	for step := 1; step <= 1000; step++ {
		time.Sleep(500 * time.Microsecond)
		bar.Set(step, "")
	}
	bar.Close()
}

// listen acts as the kernel: it runs a cell's process with the pipes of GoNB and returns what it sends.
func listen(t *testing.T, name string) []protocol.DisplayData {
	t.Helper()
	sent, stderr, err := listenTo(t, name, nil)
	if err != nil || stderr != "" {
		t.Fatalf("%v: %s", err, stderr)
	}
	return sent
}

// listenTo is listen for a cell that may fail. If the condition is not nil, it interrupts the process once the outputs satisfy it.
func listenTo(t *testing.T, name string, interrupt func(protocol.DisplayData) bool) (sent []protocol.DisplayData, stderr string, err error) {
	t.Helper()
	toKernel, fromKernel := filepath.Join(t.TempDir(), "to"), filepath.Join(t.TempDir(), "from")
	for _, pipe := range []string{toKernel, fromKernel} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := cell(t, name, protocol.GONB_PIPE_ENV+"="+toKernel, protocol.GONB_PIPE_BACK_ENV+"="+fromKernel)
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(toKernel)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	writer, err := os.OpenFile(fromKernel, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()

	messages, answers := gob.NewDecoder(reader), gob.NewEncoder(writer)
	for {
		var message protocol.DisplayData
		if messages.Decode(&message) != nil {
			break // The cell has ended.
		}
		sync, isSync := message.Data[protocol.MIMECommValue].(protocol.CommValue)
		if !isSync {
			sent = append(sent, message)
			if interrupt != nil && interrupt(message) {
				interrupt = nil
				if err := c.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
			}
		} else if err := answers.Encode(&protocol.CommValue{Address: protocol.GonbuiSyncAckAddress, Value: sync.Value}); err != nil {
			t.Fatal(err)
		}
	}
	err = c.Wait()
	return sent, said.String(), err
}

func TestNotebookGetsEachOutputInAllItsForms(t *testing.T) {
	sent := listen(t, "shows")
	if len(sent) < 5 {
		t.Fatalf("%d messages", len(sent))
	}
	for i, want := range []map[protocol.MIMEType]any{
		{protocol.MIMETextHTML: "<table><tr><td>a</td><td>b</td></tr></table>", protocol.MIMETextPlain: "a\tb"},
		{protocol.MIMEImageSVG: `<svg style="max-width:675pt;height:auto" width="100%" viewBox="0 0 675 300"/>`, protocol.MIMEImagePNG: "png", protocol.MIMETextPlain: "[figure]"},
		{protocol.MIMEImageSVG: "<svg>1</svg>", protocol.MIMETextPlain: "[figure]"},
		{protocol.MIMETextHTML: "<p>2</p>", protocol.MIMETextPlain: "2"},
	} {
		if len(sent[i].Data) != len(want) {
			t.Errorf("message %d is %v", i, sent[i].Data)
		}
		for kind, content := range want {
			got := sent[i].Data[kind]
			if bytes, ok := got.([]byte); ok {
				got = string(bytes)
			}
			if got != content {
				t.Errorf("message %d: %s is %v, want %v", i, kind, got, content)
			}
		}
		if updated := i >= 2; (sent[i].DisplayID != "") != updated {
			t.Errorf("message %d has the display id %q", i, sent[i].DisplayID)
		}
	}
	if sent[2].DisplayID != sent[3].DisplayID {
		t.Error("a display that is replaced has become two outputs")
	}
}

// waitOnABar is a cell with a long first step, such as compilation.
func waitOnABar() {
	bar := Progress("train", 10)
	bar.Phase(progress.Compiling)
	time.Sleep(2500 * time.Millisecond)
	bar.Close()
}

func TestABarTicksWhileNothingIsDone(t *testing.T) {
	sent := listen(t, "waits")
	// Once at the beginning, twice in two and a half seconds, and once at the end.
	if len(sent) < 3 || len(sent) > 6 {
		t.Fatalf("%d messages", len(sent))
	}
	for i, message := range sent {
		content := message.Data[protocol.MIMETextHTML].(string)
		if message.DisplayID != sent[0].DisplayID || i > 0 && (content == sent[i-1].Data[protocol.MIMETextHTML] || !strings.Contains(content, "0/10  0%  compiling")) {
			t.Errorf("message %d: %s", i, content)
		}
	}
}

func TestABarIsOneOutputWithFewMessages(t *testing.T) {
	bar := listen(t, "shows")[4:]
	for _, message := range bar {
		if message.DisplayID == "" || message.DisplayID != bar[0].DisplayID {
			t.Errorf("the bar has become several outputs: %q, %q", bar[0].DisplayID, message.DisplayID)
		}
	}
	// At least half a second of steps, drawn four times per second, at the beginning and at the end.
	if len(bar) > 40 {
		t.Errorf("%d messages for 1000 steps", len(bar))
	}
	last := bar[len(bar)-1].Data[protocol.MIMETextHTML].(string)
	if !strings.Contains(last, "1000/1000  100%") {
		t.Errorf("the bar ends with %s", last)
	}
}
