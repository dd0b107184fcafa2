package train_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/train"
)

// FuzzResume damages a checkpoint: bytes change in two places, and something is cut out or doubled. Resuming it is refused in one line that names the file, or
// gives what was saved. It never gives other numbers.
func FuzzResume(f *testing.F) {
	objective := leastSquares(6, 1, 0.1)
	dir := f.TempDir()
	whole, err := train.New(testbackend.Go(f), objective)
	if err != nil {
		f.Fatal(err)
	}
	defer whole.Close()
	if err := whole.Begin(3); err != nil {
		f.Fatal(err)
	}
	for range 2 {
		if _, err := whole.Step(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
	path := filepath.Join(dir, "whole.safetensors")
	if err := whole.Save(path, "a note"); err != nil {
		f.Fatal(err)
	}
	saved, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	header := int(binary.LittleEndian.Uint64(saved))
	digest, position := bytes.Index(saved, []byte("semcon.sha256")), bytes.Index(saved, []byte("done"))
	if digest < 0 || position < 0 {
		f.Fatalf("header %s", saved[8:8+header])
	}
	f.Add(uint16(0), []byte(nil), uint16(0), []byte(nil), uint16(0), int8(0))
	f.Add(uint16(digest), []byte{1}, uint16(8+header), []byte{1}, uint16(0), int8(0))         // The checksum has another name, and a weight another value.
	f.Add(uint16(digest), []byte{1}, uint16(position+7), []byte{1}, uint16(0), int8(0))       // So has the position.
	f.Add(uint16(len(saved)-1), []byte{128}, uint16(0), []byte(nil), uint16(8), int8(5))      // Something is missing.
	f.Add(uint16(digest+20), []byte{1, 2, 3}, uint16(0), []byte{8}, uint16(header), int8(-9)) // Something is there twice.
	f.Fuzz(func(t *testing.T, first uint16, change []byte, second uint16, other []byte, at uint16, cut int8) {
		damaged := bytes.Clone(saved)
		for place, change := range map[uint16][]byte{first: change, second: other} {
			for i, x := range change {
				damaged[(int(place)+i)%len(damaged)] ^= x
			}
		}
		place := int(at) % len(damaged)
		if n := min(max(int(cut), -int(cut)), len(damaged)-place); cut > 0 {
			damaged = append(damaged[:place:place], damaged[place+n:]...)
		} else {
			damaged = append(damaged[:place+n:place+n], damaged[place:]...)
		}
		path := filepath.Join(t.TempDir(), "damaged.safetensors")
		if err := os.WriteFile(path, damaged, 0o666); err != nil {
			t.Fatal(err)
		}
		resumed := newTrainer(t, testbackend.Go(t), objective)
		note, err := resumed.Resume(path)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("%q is not one line that names the file", err)
			}
			return
		}
		again := filepath.Join(t.TempDir(), "again.safetensors")
		if err := resumed.Save(again, note); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(again); err != nil || !bytes.Equal(got, saved) {
			t.Errorf("resumed to other numbers (%v) from %q", err, damaged)
		}
	})
}
