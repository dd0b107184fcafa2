package xlacache

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheFolderMoves(t *testing.T) {
	t.Setenv(EnvVar, "off")
	if Dir() != "" {
		t.Errorf("off: %q", Dir())
	}
	if programs, size := Usage(); programs != 0 || size != 0 {
		t.Errorf("off: %d programs of %d bytes", programs, size)
	}
	t.Setenv(EnvVar, "elsewhere")
	if Dir() != "elsewhere" {
		t.Errorf("moved: %q", Dir())
	}
	t.Setenv(EnvVar, "")
	t.Setenv("XDG_CACHE_HOME", "/caches")
	t.Setenv("HOME", "/home/somebody")
	if !strings.HasSuffix(Dir(), filepath.Join("semcon", "xla")) {
		t.Errorf("the user's: %q", Dir())
	}
}

// TestDamagedEntriesGo flips, cuts and empties an entry.
func TestDamagedEntriesGo(t *testing.T) {
	f := folder{t.TempDir(), 1 << 20}
	for _, damage := range []func([]byte) []byte{
		func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		func(b []byte) []byte { b[0] ^= 1; return b },
		func(b []byte) []byte { return b[:len(b)-1] },
		func(b []byte) []byte { return append(b, 0) },
		func([]byte) []byte { return nil },
	} {
		f.write("key"+programSuffix, []byte("program"))
		if got, ok := f.read("key" + programSuffix); !ok || string(got) != "program" {
			t.Fatalf("read %q, %t", got, ok)
		}
		path := filepath.Join(f.dir, "key"+programSuffix)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damage(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, ok := f.read("key" + programSuffix); ok {
			t.Errorf("read %q of a damaged entry", got)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the damaged entry is still there: %v", err)
		}
	}
}

// TestTheOldestGoesFirst fills the folder beyond its bound after an old entry was used again.
func TestTheOldestGoesFirst(t *testing.T) {
	dir := t.TempDir()
	f := folder{dir, 3 * 132}
	program := make([]byte, 100) // 132 bytes with its checksum.
	for i, key := range []string{"a", "b", "c"} {
		f.write(key+programSuffix, program)
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, key+programSuffix), at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"somebody's", ".writing-killed" + programSuffix} {
		if err := os.WriteFile(filepath.Join(dir, name), program, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(filepath.Join(dir, ".writing-killed"+programSuffix), time.Time{}, time.Now().Add(-20*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.read("a" + programSuffix); !ok {
		t.Fatal("a is gone")
	}
	f.write("d"+programSuffix, program)
	var left []string
	for _, e := range entries(dir, programSuffix) {
		left = append(left, strings.TrimSuffix(e.Name(), programSuffix))
	}
	if got := strings.Join(left, " "); got != "c a d" {
		t.Errorf("left: %s", got)
	}
	t.Setenv(EnvVar, dir)
	if programs, size := Usage(); programs != 3 || size != 3*132 {
		t.Errorf("%d programs, %d bytes", programs, size)
	}
	if err := Clear(); err != nil {
		t.Fatal(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files are left, want only the one that is not a program", len(files))
	}
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f := folder{file, 1 << 20}
	f.write("key"+programSuffix, []byte("program"))
	if _, ok := f.read("key" + programSuffix); ok {
		t.Error("read what cannot be written")
	}
}

func TestKeysTellMachinesApart(t *testing.T) {
	if keyOf([]byte("ab"), []byte("c")) == keyOf([]byte("a"), []byte("bc")) {
		t.Error("two lists of parts have one key")
	}
	plugin, other, cpuinfo := filepath.Join(t.TempDir(), "a.so"), filepath.Join(t.TempDir(), "b.so"), filepath.Join(t.TempDir(), "cpuinfo")
	for path, content := range map[string]string{
		plugin: "a", other: "b",
		cpuinfo: "processor\t: 0\nmodel name\t: A\ncpu MHz\t: 2000\nflags\t: avx\n\nprocessor\t: 1\nflags\t: sse\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := folder{t.TempDir(), 1 << 20}
	seen := map[string]string{}
	for _, m := range [][3]string{{plugin, "", ""}, {other, "", ""}, {plugin, "H200", ""}, {plugin, "", "--xla_a"}} {
		key, err := f.machine(m[0], m[1], m[2])
		if err != nil {
			t.Fatal(err)
		}
		if same, ok := seen[key]; ok {
			t.Errorf("%v and %s are alike", m, same)
		}
		seen[key] = m[0] + m[1] + m[2]
	}
	if _, err := f.machine(plugin+"x", "", ""); err == nil {
		t.Error("a plugin that is not there has no key")
	}
	if got, want := processor(cpuinfo), "model name\t: A\nflags\t: avx"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDigestsOfPluginsAreKept: a plugin is read again when its size or its modification time changes.
func TestDigestsOfPluginsAreKept(t *testing.T) {
	f, plugin := folder{t.TempDir(), 1 << 20}, filepath.Join(t.TempDir(), "a.so")
	at := time.Now().Add(-time.Hour)
	machine := func(content string, at time.Time) string {
		t.Helper()
		if err := os.WriteFile(plugin, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(plugin, at, at); err != nil {
			t.Fatal(err)
		}
		key, err := f.machine(plugin, "", "")
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := machine("one", at)
	if machine("two", at) != first {
		t.Error("the digest was not kept")
	}
	if machine("two", at.Add(time.Second)) == first || machine("three", at) == first {
		t.Error("another plugin has the same key")
	}
	if programs, kept := entries(f.dir, programSuffix), entries(f.dir, digestSuffix); len(programs) != 0 || len(kept) != 3 {
		t.Errorf("%d programs and %d digests", len(programs), len(kept))
	}
}

// TestOnlyTheUsersOwnIsTrusted: a folder that others can write, and entries of others.
func TestOnlyTheUsersOwnIsTrusted(t *testing.T) {
	dir := t.TempDir()
	f := folder{dir, 1 << 20}
	f.write("key"+programSuffix, []byte("program"))
	if err := Trusted(dir); err != nil {
		t.Error(err)
	}
	if err := Trusted(filepath.Join(dir, "later")); err != nil {
		t.Error(err)
	}
	for _, mode := range []os.FileMode{0o777, 0o775, 0o707 | os.ModeSticky} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := Trusted(dir); err == nil || !strings.Contains(err.Error(), dir+" can be written by others") {
			t.Errorf("%v: %v", mode, err)
		}
	}
	if os.Getuid() != 0 {
		return // Only root can give files away.
	}
	path := filepath.Join(dir, "key"+programSuffix)
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if got, ok := f.read("key" + programSuffix); ok {
		t.Errorf("read %q of another user", got)
	}
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if err := Trusted(dir); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Error(err)
	}
}
