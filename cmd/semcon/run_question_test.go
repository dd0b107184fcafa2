package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/study"
)

// TestHoursBeginWithAQuestion: only where nobody has said which profile, the run is long, and none has begun.
func TestHoursBeginWithAQuestion(t *testing.T) {
	costs := map[study.Profile]string{study.Smoke: "seconds", study.Quick: "60 to 90 minutes", study.Full: "a minute"}
	e := study.Experiment{Info: study.Info{Name: "long", Cost: costs}}
	o := study.Options{Profile: study.Quick, Out: t.TempDir()}
	for answer, begins := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "n\n": false, "": false} {
		var asked bytes.Buffer
		err := askBeforeHours(t.Context(), strings.NewReader(answer), &asked, e, o)
		if (err == nil) != begins || !strings.Contains(asked.String(), "60 to 90 minutes\nprofile smoke: seconds\nbegin quick? [y/N] ") {
			t.Errorf("%q: %v after %q", answer, err, asked.String())
		}
		if err != nil && !strings.Contains(err.Error(), "--profile quick") {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	waiting, _ := io.Pipe()
	if err := askBeforeHours(ctx, waiting, io.Discard, e, o); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	short := o
	short.Profile = study.Full
	if err := askBeforeHours(t.Context(), strings.NewReader(""), io.Discard, e, short); err != nil {
		t.Errorf("a short run: %v", err)
	}
	folder := study.Folder(o.Out, e.Name)
	for i, profile := range []study.Profile{study.Smoke, study.Quick} { // The first one's records do not count.
		if err := (study.Record{Experiment: e.Name, Profile: profile, Cell: "a/seed0", Config: []byte("{}")}).Append(folder); err != nil {
			t.Fatal(err)
		}
		if err := askBeforeHours(t.Context(), strings.NewReader(""), io.Discard, e, o); (err == nil) != (i == 1) {
			t.Errorf("records of profile %s: %v", profile, err)
		}
	}
}
