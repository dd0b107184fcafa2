package setup

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"errors"
)

// transcript writes the output of a tool to the log and remembers the important lines.
type transcript struct {
	mu      sync.Mutex
	log     io.Writer
	partial []byte
	latest  string // The last line that is not blank.
	fault   string // The last line that mentions an error.
	offline bool   // Whether a line mentions a failed connection.
}

func newTranscript(log io.Writer, title string) *transcript {
	fmt.Fprintf(log, "\n== %s, %s\n", title, time.Now().Format(time.DateTime))
	return &transcript{log: log}
}

var (
	faultLine   = regexp.MustCompile(`(?i)\b(error|fatal|cannot|no space left)\b`)
	offlineLine = regexp.MustCompile(`(?i)NewConnectionError|ConnectTimeout|ProxyError|name resolution|not known|no such host|network is unreachable|connection refused|dial tcp|i/o timeout|timed out`)
)

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, p...)
	for {
		line, rest, whole := bytes.Cut(t.partial, []byte("\n"))
		if !whole {
			break
		}
		t.line(strings.TrimSpace(string(line)))
		t.partial = rest
	}
	return t.log.Write(p)
}

func (t *transcript) line(line string) {
	if line == "" || strings.HasPrefix(line, "#") {
		return // Go prints "# package" before the messages of the compiler.
	}
	t.latest = line
	if faultLine.MatchString(line) {
		t.fault = line
	}
	t.offline = t.offline || offlineLine.MatchString(line)
}

func (t *transcript) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.latest
}

// explain returns in one line why a task failed, from the output of its tool and the error of running it.
func (t *transcript) explain(err error) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.partial) > 0 {
		t.line(strings.TrimSpace(string(t.partial)))
		t.partial = nil
	}
	said := err.Error()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		switch {
		case t.fault != "":
			said = t.fault
		case t.latest != "":
			said = t.latest
		}
	}
	if t.offline {
		said += " (no connection: set-up downloads packages once; go online or set the proxies of pip and Go, then run this again)"
	}
	return said
}
