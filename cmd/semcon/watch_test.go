package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// watchable writes two runs, one that has finished and one that a process runs now.
func watchable(t *testing.T, m *fakeMachine) {
	t.Helper()
	m.Write(t, "out/pretrain/cells/synthetic/seed0-0123456789ab/lock", "")
	m.Write(t, "out/pretrain/cells/synthetic/seed0-0123456789ab/first/curve.jsonl", `{"step":2,"total":3.5}`+"\n"+`{"step":4,"total":3}`+"\n"+`{"st`)
	m.Write(t, "out/train/<b>/lock", "")
	m.Write(t, "out/train/<b>/progress.json", `{"title":"train","done":3,"total":9,"summary":"3/9  33%  2/s  3s left","call":"all of it  3/9","memory":1610612736}`)
}

func TestWatchWithoutATerminalPrintsTheStateOnce(t *testing.T) {
	m := newMachine(t)
	watchable(t, m)
	want := "out, 2 runs: 1 running, 1 done\nall of it  3/9  1.5 GiB\nrunning  train/<b>  0s ago  3/9  33%  2/s  3s left  1.5 GiB\ndone     pretrain/synthetic/seed0\n"
	if stdout, stderr, status := outcome(t, semcon(t, m, "watch")); status != 0 || stderr != "" || regexp.MustCompile(`\d+s ago`).ReplaceAllString(stdout, "0s ago") != want {
		t.Errorf("exit status %d, %q:\n%s", status, stderr, stdout)
	}
	for name, want := range map[string]string{"pretrain": "out/pretrain, 1 run: 1 done", "out/train/<b>": "out/train/<b>, 1 run: 1 running", "video": "out/video, 0 runs\n"} {
		if stdout, stderr, status := outcome(t, semcon(t, m, "watch", name)); status != 0 || stderr != "" || !strings.HasPrefix(stdout, want) {
			t.Errorf("%s: exit status %d, %q:\n%s", name, status, stderr, stdout)
		}
	}
	if _, stderr, status := outcome(t, semcon(t, m, "watch", "--out", "nowhere")); status != 1 || !strings.Contains(stderr, "--out nowhere") {
		t.Errorf("exit status %d, %q", status, stderr)
	}
}

// TestThePageIsForThisMachineAndTheToken runs the program: it listens on localhost and ends without an error when it is interrupted.
func TestThePageIsForThisMachineAndTheToken(t *testing.T) {
	m := newMachine(t)
	watchable(t, m)
	server := semcon(t, m, "watch", "--serve")
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\w{20,}`).FindString(line)
	if address == "" {
		t.Errorf("it says %q", line)
	}
	bare, _, _ := strings.Cut(address, "?")
	for url, want := range map[string]int{address: 200, bare: 403, bare + "?token=": 403, bare + "state?token=x": 403, bare + "curves.svg?row=0": 403} {
		if answer, err := http.Get(url); err != nil || answer.StatusCode != want {
			t.Errorf("%s: %v, %v", url, answer, err)
		} else {
			answer.Body.Close()
		}
	}
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}

// TestThePageShowsTheChosenRuns asks nothing of other hosts, and takes no name for a part of itself.
func TestThePageShowsTheChosenRuns(t *testing.T) {
	m := newMachine(t)
	watchable(t, m)
	get := func(path string) (body, kind string, status int) {
		answer := httptest.NewRecorder()
		runsPage{m.Path("out"), "secret"}.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		return answer.Body.String(), answer.Header().Get("Content-Type"), answer.Code
	}
	text, _, _ := get("/?token=secret")
	for _, want := range []string{"<!DOCTYPE html>", "1 running, 1 done", "3s left  1.5 GiB", "train/&lt;b&gt;", `value="3" max="9"`, `value="pretrain/synthetic/seed0" checked> A`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "http") {
		t.Errorf("it has an address of another host:\n%s", text)
	}
	picture := regexp.MustCompile(`curves\.svg\?[^"]+`).FindString(text)
	if svg, kind, status := get("/" + strings.ReplaceAll(picture, "&amp;", "&")); status != 200 || kind != "image/svg+xml" || !strings.Contains(svg, "<svg") {
		t.Errorf("%s is %d, %s", picture, status, kind)
	}
	if part, _, _ := get("/state?token=secret&run=train/%3Cb%3E"); strings.Contains(part, "<html") || !strings.Contains(part, "No curves yet") {
		t.Errorf("the state is\n%s", part)
	}
	for _, path := range []string{"/other?token=secret", "/curves.svg?token=secret", "/curves.svg?token=secret&row=7", "/curves.svg?token=secret&row=-1"} {
		if _, _, status := get(path); status != 404 {
			t.Errorf("%s: status %d", path, status)
		}
	}
}

func TestWatchOnATerminal(t *testing.T) {
	m := newMachine(t)
	watchable(t, m)
	var model tea.Model = watcher{folder: m.Path("out")}
	update := func(message tea.Msg) (answer tea.Msg) {
		var command tea.Cmd
		if model, command = model.Update(message); command != nil && fmt.Sprintf("%T", message) != "main.seen" { // What follows a look waits.
			answer = command()
		}
		return answer
	}
	update(tea.WindowSizeMsg{Width: 80, Height: 20})
	update(model.Init()())
	shown := func(want ...string) {
		t.Helper()
		text := model.View().Content
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in\n%s", part, text)
			}
		}
		if strings.Count(text, "\n") >= 20 {
			t.Errorf("too many lines:\n%s", text)
		}
	}
	shown("1 running, 1 done", "  running  train/<b>", "> done     pretrain/synthetic/seed0", "total  first  3.5  █▁  3") // The first with curves.
	update(update(tea.KeyPressMsg{Code: tea.KeyUp}))
	shown("> running  train/<b>", "nothing yet")
	update(update(tea.KeyPressMsg{Code: 'k', Text: "k"})) // There is none above.
	update(model.(watcher).look(time.Now()))
	shown("> running  train/<b>")
	update(update(tea.KeyPressMsg{Code: tea.KeyPgDown}))
	shown("> done     pretrain/synthetic/seed0")
	if _, ok := update(tea.KeyPressMsg{Code: 'q', Text: "q"}).(tea.QuitMsg); !ok {
		t.Error("q does not end it")
	}
}
