package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReportsHaveTheEndingOfTheirFormat(t *testing.T) {
	for _, to := range []string{"x.txt", "x.pdf", "x"} {
		err := ended(func() { (&reportTarget{Format: "html", To: to}).check("out") })
		if want := "--to " + to + ": want a file that ends with .html"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	target := reportTarget{Format: "html", To: filepath.Join(t.TempDir(), "x.HTML")}
	if err := ended(func() { target.check("out") }); err != nil {
		t.Error(err)
	}
}

func TestReportsArePrintedByABrowser(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	pdf := filepath.Join(dir, "report.pdf")
	target := &reportTarget{Format: "pdf", To: pdf}
	if err := ended(func() { target.check("out") }); err == nil || !strings.Contains(err.Error(), "looked for chromium, ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("without a browser: %v", err)
	}
	script := func(name, does string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+does), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script("google-chrome", `for a in "$@"; do last="$a"; case "$a" in --print-to-pdf=*) to="${a#*=}";; esac; done; echo "%PDF of $last" > "$to"`)
	target.check("out")
	page := filepath.Join(dir, "report.html")
	target.print(t.Context(), page, t.TempDir())
	if content, err := os.ReadFile(pdf); err != nil || string(content) != "%PDF of file://"+page+"\n" {
		t.Errorf("%q, %v", content, err)
	}
	script("google-chrome", "echo no display >&2")
	if err := ended(func() { target.print(t.Context(), page, t.TempDir()) }); err == nil || !strings.Contains(err.Error(), "no display") {
		t.Errorf("a browser that prints nothing: %v", err)
	}
}
