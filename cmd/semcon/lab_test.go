package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/backend"
)

// serveFakeLab answers like JupyterLab to requests with the token.
func serveFakeLab(args []string) {
	settings := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--ServerApp."), "=")
		settings[name] = value
	}
	token := "token " + os.Getenv("JUPYTER_TOKEN")
	os.WriteFile("profile.txt", []byte(os.Getenv("SEMCON_PROFILE")), 0o644) // For the test to look at.
	err := http.ListenAndServe(settings["ip"]+":"+settings["port"], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != token {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestLabOpensPrintsItsAddressAndStopsWithCtrlC(t *testing.T) {
	m := newMachine(t)
	t.Setenv("FAKE_LAB", "env SEMCON_TEST_ROLE=jupyterlab "+os.Args[0]+` "$@"`)
	m.Write(t, "notebooks/README.md", "# Read this first\n")
	c := semcon(t, m, "lab", "--no-browser", "--profile", "smoke")
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if folder, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(folder, "The notebooks are in "+m.Path("out", "lab")+". ") {
		t.Errorf("it does not say where the notebooks are: %q, %v", folder, err)
	}
	address := regexp.MustCompile(`http://127\.0\.0\.1:(\d+)/lab/tree/README.md\?token=([A-Z0-9]{20,})\n`).FindStringSubmatch(line)
	if address == nil {
		t.Fatalf("it printed %q", line)
	}
	if tunnel, err := lines.ReadString('\n'); err != nil || tunnel != fmt.Sprintf("From another machine: ssh -L %[1]s:127.0.0.1:%[1]s HOST\n", address[1]) {
		t.Errorf("it does not say how to reach it from another machine: %q, %v", tunnel, err)
	}
	if profile, err := os.ReadFile(m.Path("profile.txt")); err != nil || string(profile) != "smoke" {
		t.Errorf("the notebooks get the profile %q, %v", profile, err)
	}
	if response, err := http.Get("http://127.0.0.1:" + address[1] + "/api/status"); err != nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("without the token: %v, %v", response, err)
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	if connection, err := net.DialTimeout("tcp", "127.0.0.1:"+address[1], time.Second); err == nil {
		connection.Close()
		t.Error("the server lives on")
	}
}

// TestKilledLabLeavesNoServer kills the binary, which cannot clean up then.
func TestKilledLabLeavesNoServer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux signals the end of a parent")
	}
	m := newMachine(t)
	t.Setenv("FAKE_LAB", "env SEMCON_TEST_ROLE=jupyterlab "+os.Args[0]+` "$@"`)
	c := semcon(t, m, "lab", "--no-browser")
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	port := regexp.MustCompile(`127\.0\.0\.1:(\d+)`).FindStringSubmatch(line)[1]
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	for range 100 {
		connection, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err != nil {
			return
		}
		connection.Close()
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the server lives on")
}

func TestLabThatDoesNotStart(t *testing.T) {
	m := newMachine(t)
	t.Setenv("FAKE_LAB", "false")
	_, stderr, status := outcome(t, semcon(t, m, "lab", "--no-browser"))
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	wantLine(t, stderr[strings.Index(stderr, "semcon lab:"):], "ended before it answered", m.Path(".semcon", "lab.log"))
}

func TestLabSetupOnly(t *testing.T) {
	m := newMachine(t)
	stdout, _, status := outcome(t, semcon(t, m, "lab", "--setup-only"))
	if status != 0 || stdout != m.Checkout+" is set up\n" {
		t.Errorf("exit status %d, printed %q", status, stdout)
	}
	t.Setenv("FAKE_PIP_ERROR", "ERROR: no wheel")
	if err := os.RemoveAll(m.Path(".semcon", "stamps")); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := outcome(t, semcon(t, m, "lab", "--setup-only"))
	if status != 1 {
		t.Errorf("exit status %d after a failed step", status)
	}
	wantLine(t, stderr[strings.Index(stderr, "semcon lab:"):], "ERROR: no wheel")
}

// TestLabSetupOnlyGlobal runs set-up in a folder outside any checkout.
func TestLabSetupOnlyGlobal(t *testing.T) {
	m, cache := newMachine(t), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	c := semcon(t, m, "lab", "--setup-only", "--global")
	c.Dir = t.TempDir()
	dir, err := backend.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, status := outcome(t, c); backend.CanLoadXLA() && (status != 0 || stdout != dir+" is set up\n") {
		t.Errorf("exit status %d, printed %q, %q", status, stdout, stderr)
	}
	_, stderr, status := outcome(t, semcon(t, m, "lab", "--global"))
	if status != 2 {
		t.Errorf("--global alone: exit status %d", status)
	}
	wantLine(t, stderr, "--global needs --setup-only")
}

func TestLabListensOnThisMachineOnly(t *testing.T) {
	in, err := installAt(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lab := labCommand(t.Context(), in, "/notebooks", 9000, false)
	args := strings.Join(lab.Args, " ")
	for _, want := range []string{"--ServerApp.ip=127.0.0.1", "--ServerApp.port=9000", "--ServerApp.root_dir=/notebooks", "--ServerApp.open_browser=False"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in %s", want, args)
		}
	}
	if strings.Contains(args, "token") {
		t.Errorf("a token stands in the arguments: %s", args)
	}
}

func TestTakenPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	if err := ended(func() { freePort(port) }); err == nil || !strings.Contains(err.Error(), "--port "+strconv.Itoa(port)) {
		t.Errorf("a taken port: %v", err)
	}
	if port := freePort(0); port < 8888 {
		t.Errorf("any port: %d", port)
	}
}
