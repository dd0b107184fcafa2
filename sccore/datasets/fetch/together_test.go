package fetch

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/filelock"
)

// TestFetchTwiceAtOnce: the second call waits for the first and downloads nothing.
func TestFetchTwiceAtOnce(t *testing.T) {
	content := tarred(t, wholeArchive())
	c := small(content)
	dir := t.TempDir()
	unlock, err := filelock.Wait(t.Context(), filepath.Join(dir, ".cifar10.lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{content: content}
	web := httptest.NewServer(s)
	defer web.Close()
	waiting, done := make(chan bool, 2), make(chan error, 2)
	for range 2 {
		go func() {
			done <- fetchAll(t.Context(), dir, Options{BaseURL: web.URL, Say: func(line string) {
				if strings.HasSuffix(line, "; waiting for it") {
					waiting <- true
				}
			}}, c)
		}()
	}
	<-waiting
	<-waiting
	unlock()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(s.requested) != 1 {
		t.Errorf("%d requests of two calls", len(s.requested))
	}
	if left := leftIn(t, dir); left != "cifar-10-batches-bin" {
		t.Errorf("left %s", left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	unlock, err = filelock.Wait(ctx, filepath.Join(dir, ".other.lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	cancel()
	if _, err := filelock.Wait(ctx, filepath.Join(dir, ".other.lock"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting after an interrupt: %v", err)
	}
}
