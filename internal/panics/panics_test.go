package panics

import (
	"errors"
	"testing"
)

func TestCatch(t *testing.T) {
	wrong := errors.New("wrong")
	for name, one := range map[string]struct {
		f    func() error
		want string
	}{
		"nothing":    {func() error { return nil }, ""},
		"an error":   {func() error { return wrong }, "wrong"},
		"a panic":    {func() error { panic("\n index out of range\ngoroutine 1") }, "internal error: index out of range"},
		"of Go's":    {func() error { var none []int; return errors.New(string(rune(none[len(none)]))) }, "internal error: runtime error: index out of range [0] with length 0"},
		"of another": {func() error { panic(Catch(func() error { panic("inner") })) }, "internal error: inner"},
		"of a blank": {func() error { panic(" \n") }, "internal error: an error without a message"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Catch(one.f); err != nil {
				got = err.Error()
			}
			if got != one.want {
				t.Errorf("%q, want %q", got, one.want)
			}
		})
	}
}
