package jsonstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestObjectsAndArrays(t *testing.T) {
	r := New(strings.NewReader(` {"skip": [{"a": [1, {}]}, "x"], "list": [1, "two", 3], "n": {"v": 1.5}, "s": 7} `))
	var got []string
	err := r.Object(func(key string) error {
		switch key {
		case "list":
			return r.Array(func(i int) error {
				var n int
				err := r.Decode(&n)
				if errors.As(err, new(*ValueError)) { // The reader goes on behind it.
					got, err = append(got, err.Error()), nil
				}
				got = append(got, fmt.Sprint(i, n))
				return err
			})
		case "n":
			var n struct{ V int }
			err := r.Decode(&n)
			got = append(got, err.Error())
			return nil
		}
		got = append(got, key)
		return r.Skip()
	})
	if err == nil {
		err = r.End()
	}
	want := "skip; 0 1; string, want a whole number; 1 0; 2 3; V: number 1.5, want a whole number; s"
	if err != nil || strings.Join(got, "; ") != want {
		t.Errorf("%q, %v, want %q", strings.Join(got, "; "), err, want)
	}
}

func TestBrokenStreams(t *testing.T) {
	for text, want := range map[string]string{
		`[1, 2`:         "ends too soon",
		`[1, 2] 3`:      "more follows the end, at byte 8",
		`[1, x]`:        "is not JSON at byte",
		`[1 2]`:         "is not JSON at byte",
		`{"a": 1}`:      "want a list at byte 1",
		`[1] x`:         "is not JSON at byte",
		`"` + `\ud800"`: "want a list at byte",
	} {
		t.Run(text, func(t *testing.T) {
			r := New(strings.NewReader(text))
			err := r.Array(func(int) error { return r.Skip() })
			if err == nil {
				err = r.End()
			}
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}
