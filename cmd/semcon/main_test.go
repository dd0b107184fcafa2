package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dsnet/try"
	"github.com/spf13/cobra"
)

// TestMain lets the test binary act as semcon and as JupyterLab, so that tests run real processes.
func TestMain(m *testing.M) {
	switch os.Getenv("SEMCON_TEST_ROLE") {
	case "semcon":
		main()
	case "busy semcon":
		verbsFile += "  - use: busy now\n    annotations: {kept: checkpoint kept}\n"
		verbs["busy"] = busyVerb
		main()
	case "jupyterlab":
		serveFakeLab(os.Args[1:])
	default:
		os.Exit(m.Run())
	}
}

// semcon returns a command line of the binary, to be run in the checkout of a fake machine.
func semcon(t *testing.T, m *fakeMachine, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Dir = m.Checkout
	c.Env = append(os.Environ(), "SEMCON_TEST_ROLE=semcon")
	return c
}

// outcome runs a command line and returns its output and exit status.
func outcome(t *testing.T, c *exec.Cmd) (stdout, stderr string, status int) {
	t.Helper()
	var out, err bytes.Buffer
	c.Stdout, c.Stderr = &out, &err
	failed := c.Run()
	if failed != nil && !errors.As(failed, new(*exec.ExitError)) {
		t.Fatal(failed)
	}
	return out.String(), err.String(), c.ProcessState.ExitCode()
}

// wantLine checks that text is one line that contains all parts.
func wantLine(t *testing.T, text string, parts ...string) {
	t.Helper()
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		t.Errorf("not one line: %q", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}

func TestExitStatuses(t *testing.T) {
	m := newMachine(t)
	for _, test := range []struct {
		args   []string
		status int
		stderr []string
	}{
		{[]string{}, 2, nil},
		{[]string{"lba"}, 2, []string{`semcon: unknown verb "lba"`}},
		{[]string{"help", "lba"}, 2, []string{`semcon help: unknown verb "lba"`}},
		{[]string{"run", "pretrian"}, 2, []string{`semcon run: unknown experiment "pretrian": did you mean pretrain? "semcon list" has all`}},
		{[]string{"run", "pretrain", "--set", "first.encoder=resnet"}, 2, []string{`semcon run: --set first.encoder: unknown vision transformer "resnet"`}},
		{[]string{"settings", "rate"}, 2, []string{`unknown experiment "rate"`, "semcon settings EXPERIMENT WORD"}},
		{[]string{"train", "docs", "--steps", "5"}, 2, []string{"there is no flag --steps; a setting is --set steps=VALUE"}},
		{[]string{"show", "nofile.png"}, 2, []string{"semcon show: --weights FILE is missing"}},
		{[]string{"lab", "here"}, 2, []string{"semcon lab:", `"here"`}},
		{[]string{"lab", "--port", "web"}, 2, []string{"semcon lab:", "port", "web"}},
		{[]string{"lab", "--port", "70000"}, 2, []string{"--port 70000"}},
		{[]string{"lab", "--profile", "huge"}, 2, []string{`--profile "huge"`, "smoke, quick, real and full"}},
		{[]string{"notebooks", "--profile", "huge"}, 2, []string{`--profile "huge"`, "want smoke, quick, real or full"}},
		{[]string{"notebooks", "--timeout", "-1s"}, 2, []string{"--timeout -1s"}},
		{[]string{"notebooks", "none"}, 2, []string{"none.ipynb"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			stdout, stderr, status := outcome(t, semcon(t, m, test.args...))
			if status != test.status || stdout != "" {
				t.Errorf("exit status %d, want %d; printed %q", status, test.status, stdout)
			}
			if test.stderr != nil {
				wantLine(t, stderr, test.stderr...)
			}
		})
	}
}

func TestVersionAsAFlag(t *testing.T) {
	m := newMachine(t)
	want, _, _ := outcome(t, onGo(semcon(t, m, "version")))
	for _, flag := range []string{"--version", "-version", "-v"} {
		if stdout, stderr, status := outcome(t, onGo(semcon(t, m, flag))); status != 0 || stderr != "" || stdout != want {
			t.Errorf("%s: exit status %d, printed %q %q", flag, status, stdout, stderr)
		}
	}
}

func TestEveryVerbHasHelpAndRefusesUnknownFlags(t *testing.T) {
	m := newMachine(t)
	list, _, status := outcome(t, semcon(t, m, "help"))
	if status != 0 {
		t.Errorf("help: exit status %d", status)
	}
	all := newRoot().Commands()
	for _, v := range all {
		if !strings.Contains(list, "  "+v.Name()+" ") || !strings.Contains(list, v.Short) {
			t.Errorf("help does not list %s", v.Name())
		}
		all = append(all, v.Commands()...)
	}
	for _, v := range all {
		words := strings.Fields(v.CommandPath())[1:]
		for _, args := range [][]string{append(words, "--help"), append([]string{"help"}, words...)} {
			stdout, stderr, status := outcome(t, semcon(t, m, args...))
			if status != 0 || stderr != "" || !strings.Contains(stdout, "Examples:\n  "+v.CommandPath()) {
				t.Errorf("semcon %s: exit status %d, printed %q %q", strings.Join(args, " "), status, stdout, stderr)
			}
		}
		_, stderr, status := outcome(t, semcon(t, m, append(words, "--no-such-flag")...))
		if status != 2 {
			t.Errorf("%s --no-such-flag: exit status %d", v.CommandPath(), status)
		}
		wantLine(t, stderr, v.CommandPath()+": ", "no-such-flag", v.CommandPath()+" --help")
	}
}

// act adds a verb "act" for a test, which says what it does.
func act(t *testing.T, verb func(c *cobra.Command, _ flagTexts)) {
	file, all := verbsFile, verbs
	t.Cleanup(func() { verbsFile, verbs = file, all })
	verbsFile, verbs = file+"  - use: act NAMES\n", maps.Clone(all)
	verbs["act"] = verb
}

func TestFailuresAreOneLine(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name   string
		ctx    context.Context
		run    func() error
		status int
		stderr string
	}{
		{"error", t.Context(), func() error { return errors.New("data/x.bin: truncated\nand a stack\n") }, 1, "semcon act: data/x.bin: truncated\n"},
		{"panic with an error", t.Context(), func() error { panic(errors.New("\nshapes differ\nstack")) }, 1, "semcon act: internal error: shapes differ\n"},
		{"panic with a text", t.Context(), func() error { panic("shapes differ") }, 1, "semcon act: internal error: shapes differ\n"},
		{"panic of the runtime", t.Context(), func() error { return []error{}[len(verbs)] }, 1, "semcon act: internal error: runtime error: index out of range"},
		{"usage", t.Context(), func() error { return usagef("--seeds %d: at least 1", 0) }, 2, "semcon act: --seeds 0: at least 1\n"},
		{"interrupted", canceled, func() error { return context.Canceled }, 130, "semcon act: stopped\n"},
		{"interrupted, and unable to save", canceled, func() error { return errors.New("out/x: no space left on device") }, 1,
			"semcon act: out/x: no space left on device\n"},
		{"advice for another verb", t.Context(), func() error { return errors.New("x.pth: give --heads or --arch") }, 1,
			"semcon act: x.pth: give --heads or --arch; --heads is a flag of \"semcon import\", which writes a file that every verb reads\n"},
		{"no flag of weights", t.Context(), func() error { return errors.New("there is no flag --out") }, 1, "semcon act: there is no flag --out\n"},
		{"success", t.Context(), func() error { return nil }, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			act(t, func(c *cobra.Command, _ flagTexts) { c.Run = func(*cobra.Command, []string) { try.E(test.run()) } })
			var stderr bytes.Buffer
			if status := command(test.ctx, []string{"act"}, &stderr); status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			if !strings.HasPrefix(stderr.String(), test.stderr) || strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("said %q, want %q", stderr.String(), test.stderr)
			}
		})
	}
}

func TestNamesAndFlagsInAnyOrder(t *testing.T) {
	var only string
	var names []string
	act(t, func(c *cobra.Command, _ flagTexts) {
		c.Run = func(_ *cobra.Command, args []string) { names = args }
		c.Flags().StringVar(&only, "only", "", "")
	})
	if status := command(t.Context(), []string{"act", "a", "--only", "x", "b", "--", "--c"}, os.Stderr); status != 0 || only != "x" || !slices.Equal(names, []string{"a", "b", "--c"}) {
		t.Errorf("exit status %d, names %q, --only %q", status, names, only)
	}
}

// TestMistypedNamesAndCompletion: what a flag and a verb may stand for, and what the shell completes.
func TestMistypedNamesAndCompletion(t *testing.T) {
	m := newMachine(t)
	_, stderr, _ := outcome(t, semcon(t, m, "tabel", "effect-aug"))
	wantLine(t, stderr, `semcon: unknown verb "tabel": did you mean table?`)
	_, stderr, _ = outcome(t, semcon(t, m, "table", "effect-aug", "--profil", "full"))
	wantLine(t, stderr, "semcon table: there is no flag --profil: did you mean --profile?", `("semcon table --help" lists the flags)`)
	_, stderr, _ = outcome(t, semcon(t, m, "run", "effect-aug", "--set", "epoch=2"))
	wantLine(t, stderr, `no key "epoch": did you mean epochs? the keys are batch, `)
	_, stderr, _ = outcome(t, semcon(t, m, "evaluate", "knnn"))
	wantLine(t, stderr, "there is no evaluation knnn, want one of centroid, ", ": did you mean knn?")
	for want, args := range map[string][]string{
		"pretrain\n": {"run", ""}, "video_seg\n": {"table", "v"}, "smoke\nquick\nreal\nfull\n": {"run", "--profile", ""}, "in-context": {"evaluate", "in"}, "cifar100\n": {"data", "fetch", ""},
		"cityscapes\n": {"evaluate", "in-context", "--dataset", ""}, "latex\n": {"table", "--format", ""},
		"first.lambdas.image_alignment=": {"run", "pretrain", "--set", "first.l"}, "steps=\t20\n": {"run", "noise-tolerance", "--profile", "smoke", "--set", ""}, "steps=": {"train", "--set", ""}, "train\n": {"settings", ""}, "doctor": {"help", ""},
	} {
		if stdout, _, status := outcome(t, semcon(t, m, append([]string{"__complete"}, args...)...)); status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%q: exit status %d, no %q in %q", args, status, want, stdout)
		}
	}
	if _, stderr, status := outcome(t, semcon(t, m, "help", "--man", "man")); status != 0 || !exists(filepath.Join(m.Checkout, "man", "semcon-evaluate-knn.1")) {
		t.Errorf("help --man: exit status %d, %s", status, stderr)
	}
	if stdout, _, status := outcome(t, semcon(t, m, "completion", "bash")); status != 0 || !strings.Contains(stdout, "__start_semcon") {
		t.Errorf("completion: exit status %d, %.100s", status, stdout)
	}
	for name, want := range map[string]bool{"patches": true, "spread": false, "spair": false, "tokencut": false, "video": false} { // Whether it tells classes of pixels apart.
		if stdout, _, _ := outcome(t, semcon(t, m, "evaluate", name, "--help")); strings.Contains(stdout, "--classes") != want {
			t.Errorf("evaluate %s:\n%s", name, stdout)
		}
	}
	if stdout, _, _ := outcome(t, semcon(t, m, "evaluate", "in-context", "--help")); !strings.Contains(stdout, "--memory SIZES") || strings.Contains(stdout, "--clusters") || strings.Contains(stdout, "--annotations") {
		t.Errorf("an evaluation shows other flags than its own:\n%s", stdout)
	}
}

// TestErrorsAreShort: a file with a number of a million digits does not fill the screen.
func TestErrorsAreShort(t *testing.T) {
	long := oneLine(fmt.Errorf("in.json: width %s: want a whole number", strings.Repeat("9", 1e6)))
	if len(long) > 3100 || !strings.HasPrefix(long, "in.json: width 9") || !strings.HasSuffix(long, "9: want a whole number") {
		t.Errorf("%d bytes: %.40s", len(long), long)
	}
	if short := oneLine(errors.New("\n a.png: is empty\ngoroutine 1")); short != "a.png: is empty" {
		t.Errorf("%q", short)
	}
}

// TestResultsOfANotebook: a command in a cell finds the records of the notebook's runs, wherever the cell runs.
func TestResultsOfANotebook(t *testing.T) {
	m := newMachine(t)
	c := semcon(t, m, "table", "main", "--profile", "smoke")
	out := t.TempDir()
	c.Env = append(c.Env, "SEMCON_OUT="+out)
	text, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(text), filepath.Join(out, "main")) {
		t.Errorf("%v: %s", err, text)
	}
}
