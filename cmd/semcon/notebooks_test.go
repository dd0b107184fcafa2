package main

import (
	"os"
	"strings"
	"testing"
)

// fakeExecution is the fake Python's replacement for execute_notebook.py, whose arguments are SOURCE COPY HTML TIMEOUT KERNEL.
const fakeExecution = `
env | grep ^SEMCON_ > "$2.env"; echo "$4 $5" >> "$2.env"
cp "$1" "$2"; touch "$3"
echo 'a library says hello'
echo '{"total": 2}'; echo '{"start": 1}'; echo '{"done": 1}'; echo '{"start": 2}'
`

func TestNotebooksExecutes(t *testing.T) {
	m := newMachine(t)
	t.Setenv("FAKE_EXECUTION", fakeExecution+`echo '{"done": 2}'`)
	m.Write(t, "data/x", "")
	stdout, stderr, status := outcome(t, semcon(t, m, "notebooks", "one", "--profile", "smoke", "--data", "data", "--out", "results", "--timeout", "90s"))
	if status != 0 || stdout != "results/notebooks/one.html\n" || !strings.Contains(stderr, "one  2/2  100%") {
		t.Errorf("exit status %d, printed %q %q", status, stdout, stderr)
	}
	for _, file := range []string{"one.ipynb", "one.html", "one.log"} {
		if _, err := os.Stat(m.Path("results", "notebooks", file)); err != nil {
			t.Error(err)
		}
	}
	env, err := os.ReadFile(m.Path("results", "notebooks", "one.ipynb.env"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SEMCON_PROFILE=smoke\n", "SEMCON_DATA=" + m.Path("data") + "\n", "SEMCON_OUT=" + m.Path("results") + "\n", "90 gonb-headless\n"} {
		if !strings.Contains(string(env), want) {
			t.Errorf("the cells do not get %q: %q", want, env)
		}
	}
}

func TestFailingCell(t *testing.T) {
	m := newMachine(t)
	t.Setenv("FAKE_EXECUTION", fakeExecution+`
printf '%s\n' '{"failed": 2, "error": "exit status 1", "stderr": "error: data/x.png: truncated\n"}'; exit 1`)
	_, stderr, status := outcome(t, semcon(t, m, "notebooks"))
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	wantLine(t, stderr[strings.Index(stderr, "semcon notebooks:"):],
		"semcon notebooks: one.ipynb, cell 2: error: data/x.png: truncated (see out/notebooks/one.html)")
	if content, err := os.ReadFile(m.Path("notebooks", "one.ipynb")); err != nil || strings.Contains(string(content), "outputs") {
		t.Errorf("the notebook itself was changed: %s, %v", content, err)
	}
}

func TestNotebookThatCannotBeExecuted(t *testing.T) {
	m := newMachine(t)
	t.Setenv("FAKE_EXECUTION", "exit 3")
	_, stderr, status := outcome(t, semcon(t, m, "notebooks"))
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	wantLine(t, stderr[strings.Index(stderr, "semcon notebooks:"):], "one.ipynb was not executed", "out/notebooks/one.log")
}

func TestNotebooksWithoutTheirData(t *testing.T) {
	m := newMachine(t)
	_, stderr, status := outcome(t, semcon(t, m, "notebooks", "--data", "nowhere"))
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	wantLine(t, stderr, "--data", "nowhere")
}

func TestCellErrorIsTheLineThatSaysWhy(t *testing.T) {
	for _, test := range []struct{ name, message, stderr, want string }{
		{"compiler", "failed: exit status 1\n# cell\n./main.go:11:6: undefined: f", "", "./main.go:11:6: undefined: f"},
		{"line of a cell", "exit status 2", "panic: shapes differ\n\nmain.f(...)\n\t \x1b[7m[[ Cell [2] Line 4 ]]\x1b[0m /tmp/main.go:18\n", "panic: shapes differ, Cell [2] Line 4"},
		{"panic", "exit status 2", "reading\npanic: shapes differ\n\ngoroutine 1 [running]:\n", "panic: shapes differ"},
		{"must.M", "exit status 1", "error: data/x.png: truncated\n", "error: data/x.png: truncated"},
		{"silent exit", "exit status 3", "", "exit status 3"},
		{"timeout", "A cell timed out while it was being executed, after 4 seconds.\nMore", "", "A cell timed out while it was being executed, after 4 seconds."},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := cellError(test.message, test.stderr); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

const executed = `{
 "cells": [
  {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# <Title>"]},
  {"cell_type": "code", "execution_count": 1, "id": "b",
   "metadata": {"execution": {"iopub.status.busy": "2026-01-01T00:00:00Z"}, "tags": ["x"]},
   "outputs": [{"name": "stdout", "output_type": "stream", "text": ["wrote /home/me/semcon/out/runs.jsonl\n", "in /home/me/semcon\n"]},
    {"name": "stderr", "output_type": "stream", "text": ["slow\n"]}],
   "source": ["f()"]}
 ],
 "metadata": {"kernelspec": {"name": "gonb"}, "language_info": {"name": "go", "version": "go1.26.8"}},
 "nbformat": 4, "nbformat_minor": 5
}`

const cleaned = `{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "a",
   "metadata": {},
   "source": [
    "# <Title>"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 1,
   "id": "b",
   "metadata": {
    "tags": [
     "x"
    ]
   },
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "wrote out/runs.jsonl\n",
      "in .\n"
     ]
    },
    {
     "name": "stderr",
     "output_type": "stream",
     "text": [
      "slow\n"
     ]
    }
   ],
   "source": [
    "f()"
   ]
  }
 ],
 "metadata": {
  "kernelspec": {
   "display_name": "Go (gonb)",
   "language": "go",
   "name": "gonb"
  },
  "language_info": {
   "file_extension": ".go",
   "mimetype": "text/x-go",
   "name": "go"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
`

func TestUpdatedNotebookHoldsNothingOfThisMachine(t *testing.T) {
	got, err := cleanNotebook([]byte(executed), "/home/me/semcon")
	if err != nil || string(got) != cleaned {
		t.Errorf("%v\n%s", err, got)
	}
	if got := withoutPath("/src/a/x, /src/a and /src/a-data", "/src/a"); got != "x, . and /src/a-data" {
		t.Errorf("paths: %q", got)
	}
	for _, bad := range []string{"", "{}", `{"cells": 3}`, "[]"} {
		if _, err := cleanNotebook([]byte(bad), "/"); err == nil {
			t.Errorf("%q passes for a notebook", bad)
		}
	}
}

func TestUpdateWritesTheOutputsBack(t *testing.T) {
	m := newMachine(t)
	m.Write(t, "executed", executed)
	t.Setenv("FAKE_EXECUTION", fakeExecution+`cp executed "$2"; echo '{"done": 2}'`)
	if _, stderr, status := outcome(t, semcon(t, m, "notebooks", "--update")); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	content, err := os.ReadFile(m.Path("notebooks", "one.ipynb"))
	if err != nil || !strings.Contains(string(content), "runs.jsonl") || strings.Contains(string(content), "iopub") {
		t.Errorf("%v\n%s", err, content)
	}
}
