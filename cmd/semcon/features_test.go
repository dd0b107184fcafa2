package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
)

// tinyWeights writes a vit-tiny with values of a sine, and a head.
func tinyWeights(t *testing.T, path string) {
	t.Helper()
	v, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		t.Fatal(err)
	}
	store := model.NewStore()
	for k, w := range v.Weights() {
		values := make([]float32, w.Size())
		for i := range values {
			values[i] = 0.1 * float32(math.Sin(12.9898*float64(i)+78.233*float64(k)))
		}
		if _, err := store.CreateVariable("/"+w.Path, tensors.FromFlatDataAndDimensions(values, w.Shape...)); err != nil {
			t.Fatal(err)
		}
	}
	head := map[string]*tensors.Tensor{"mlp.0.bias": tensors.FromValue([]float32{1, 2})}
	if err := weights.Export(path, weights.Timm, store, "/", v, head, nil); err != nil {
		t.Fatal(err)
	}
}

// picture returns a PNG of one colour on another.
func picture(t *testing.T, side int, c color.Color) []byte {
	t.Helper()
	im := image.NewRGBA(image.Rect(0, 0, side, side+5))
	for y := range side / 2 {
		for x := range side {
			im.Set(x, y, c)
		}
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, im); err != nil {
		t.Fatal(err)
	}
	return encoded.Bytes()
}

func TestImportReportsAndWrites(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	stdout, stderr, status := outcome(t, semcon(t, m, "import", "tiny.safetensors", "--out", "ours.safetensors"))
	if status != 0 || stderr != "" {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	for _, want := range []string{"vit-tiny from all keys\n", "matched         42\n", "missing          0\n", "unused           1  head.mlp.0.bias\n", "wrote ours.safetensors\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	written, metadata, err := safetensors.Read(filepath.Join(m.Checkout, "ours.safetensors"))
	if err != nil || written["head.mlp.0.bias"] != nil || len(written) != 42 || metadata["architecture"] != "vit-tiny" {
		t.Errorf("%d tensors, %v, %v", len(written), metadata, err)
	}
	card, err := os.ReadFile(filepath.Join(m.Checkout, "ours.md"))
	for _, want := range []string{`semcon.Open("ours.safetensors")`, `load_file("ours.safetensors"))`, "Imported from: tiny.safetensors, sha256 ", "matched         42", "centre crop of 224 px"} {
		if err != nil || !strings.Contains(string(card), want) {
			t.Errorf("no %q in the card: %v\n%s", want, err, card)
		}
	}
	if _, _, status := outcome(t, semcon(t, m, "import", "tiny.safetensors", "--head", "--out", "with.safetensors")); status != 0 {
		t.Errorf("--head: exit status %d", status)
	}
	if written, _, err = safetensors.Read(filepath.Join(m.Checkout, "with.safetensors")); err != nil || written["head.mlp.0.bias"] == nil {
		t.Errorf("no head, %v", err)
	}
}

// TestImportWritesOtherNames: a folder under transformers' names holds all that transformers loads, and is read again by what its config.json says.
func TestImportWritesOtherNames(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	m.Write(t, "theirs/README.md", "other things")
	if _, stderr, status := outcome(t, semcon(t, m, "import", "tiny.safetensors", "--naming", "transformers", "--positions", "timm", "--out", "theirs/model.safetensors")); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	written, metadata, err := safetensors.Read(filepath.Join(m.Checkout, "theirs", "model.safetensors"))
	if err != nil || written["encoder.layer.2.attention.attention.key.bias"] == nil || metadata["positions"] != "timm" || metadata["format"] != "pt" {
		t.Errorf("%d tensors, %v, %v", len(written), metadata, err)
	}
	for file, want := range map[string]string{
		"config.json": `"model_type": "vit"`, "preprocessor_config.json": `"shortest_edge": 256`, "model.md": `ViTModel.from_pretrained(".", add_pooling_layer=False)`,
	} {
		if content, err := os.ReadFile(filepath.Join(m.Checkout, "theirs", file)); err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s: %v, no %s in\n%s", file, err, want, content)
		}
	}
	stdout, stderr, status := outcome(t, semcon(t, m, "import", "theirs/model.safetensors", "--ignore", "encoder.layer.2.*"))
	if status != 1 || !strings.Contains(stderr, "num_hidden_layers is 3") {
		t.Errorf("exit status %d: %s%s, want one that misses the last block", status, stdout, stderr)
	}
	if stdout, stderr, status = outcome(t, semcon(t, m, "import", "theirs/model.safetensors", "--ignore", "norm*", "--ignore", "layernorm.*", "--naming", "official")); status != 1 {
		t.Errorf("exit status %d: %s%s", status, stdout, stderr)
	}
	stdout, stderr, status = outcome(t, semcon(t, m, "import", "theirs/model.safetensors"))
	if status != 0 || !strings.Contains(stdout, "vit-tiny from all keys\n") {
		t.Errorf("exit status %d: %s%s", status, stdout, stderr)
	}
}

func TestFeaturesOfAFolder(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	for i := range 3 {
		write(t, picture(t, 20+10*i, color.RGBA{uint8(80 * i), 200, 30, 255}), m.Checkout, "photos", fmt.Sprintf("%d.png", i))
	}
	run := func(args ...string) string {
		stdout, stderr, status := outcome(t, onGo(semcon(t, m, append([]string{"features", "photos", "--weights", "tiny.safetensors"}, args...)...)))
		if status != 0 {
			t.Fatalf("exit status %d: %s", status, stderr)
		}
		return stdout
	}
	broken := filepath.Join(m.Checkout, "photos", "a\nb.png")
	write(t, picture(t, 20, color.RGBA{80, 200, 30, 255}), broken)
	run("--size", "32", "--out", "lines.npy")
	if names, err := os.ReadFile(filepath.Join(m.Checkout, "lines.txt")); err != nil || string(names) != "0.png\n1.png\n2.png\na\\nb.png\n" {
		t.Errorf("a name with a line break: %q, %v", names, err)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	if stdout := run("--size", "32", "--batch", "2", "--out", "f.npy"); stdout != "wrote f.npy: 3 images, 64 features each, from vit-tiny\n" {
		t.Errorf("said %q", stdout)
	}
	npy, err := os.ReadFile(filepath.Join(m.Checkout, "f.npy"))
	if err != nil || len(npy) != 128+3*64*4 || !bytes.Contains(npy, []byte("'shape': (3, 64)")) {
		t.Errorf("%d bytes, %v", len(npy), err)
	}
	if names, err := os.ReadFile(filepath.Join(m.Checkout, "f.txt")); err != nil || string(names) != "0.png\n1.png\n2.png\n" {
		t.Errorf("names %q, %v", names, err)
	}
	tiny, err := os.ReadFile(filepath.Join(m.Checkout, "tiny.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, []byte("photos/0.png\n"), m.Checkout, "some.txt")
	_, stderr, status := outcome(t, onGo(semcon(t, m, "features", "some.txt", "--weights", "tiny.safetensors", "--out", "some.npy")))
	if status != 2 || !strings.Contains(stderr, "--out: some.txt would replace the input some.txt") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	for _, args := range []string{"features photos --weights w.safetensors --out w.safetensors", "attention photos/0.png --weights tiny.safetensors --out photos/0.png"} {
		write(t, tiny, m.Checkout, "w.safetensors")
		if _, stderr, status := outcome(t, onGo(semcon(t, m, strings.Fields(args)...))); status != 2 || !strings.Contains(stderr, " would replace the input ") {
			t.Errorf("%s: exit status %d: %s", args, status, stderr)
		}
	}
	run("--size", "32", "--batch", "3", "--patches", "--out", "f.safetensors")
	named, metadata, err := safetensors.Read(filepath.Join(m.Checkout, "f.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	named["patches"].Shape().AssertDims(3, 4, 4, 64)
	if metadata["images"] != `["0.png","1.png","2.png"]` || metadata["positions"] != "dino" {
		t.Errorf("metadata %v", metadata)
	}
	// Features do not depend on the batch: the .npy, from batches of two, has the same ones.
	for i, x := range tensors.MustCopyFlatData[float32](named["class"]) {
		bits := uint32(npy[128+4*i]) | uint32(npy[129+4*i])<<8 | uint32(npy[130+4*i])<<16 | uint32(npy[131+4*i])<<24
		if !(math.Abs(float64(math.Float32frombits(bits)-x)) <= 1e-5) {
			t.Fatalf("feature %d is %v and %v", i, math.Float32frombits(bits), x)
		}
	}
}

// TestFeaturesSkipBrokenImages keeps the features of the other images.
func TestFeaturesSkipBrokenImages(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	for _, name := range []string{"a.png", "c.png", "e.png"} {
		write(t, picture(t, 20, color.RGBA{200, 200, 30, 255}), m.Checkout, "photos", name)
	}
	m.Write(t, "photos/b.jpg", "no image")
	m.Write(t, "photos/d.png", "")
	stdout, stderr, status := outcome(t, onGo(semcon(t, m, "features", "photos", "--weights", "tiny.safetensors", "--size", "32", "--batch", "2", "--out", "f.npy")))
	if status != 0 || stdout != "wrote f.npy: 3 images, 64 features each, from vit-tiny\n" {
		t.Errorf("exit status %d, said %q", status, stdout)
	}
	for _, want := range []string{"skipped photos/b.jpg: ", "skipped photos/d.png: is empty\n", "skipped 2 of 5 images\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %q", want, stderr)
		}
	}
	if names, err := os.ReadFile(filepath.Join(m.Checkout, "f.txt")); err != nil || string(names) != "a.png\nc.png\ne.png\n" {
		t.Errorf("names %q, %v", names, err)
	}
}

func TestWeightVerbsRefuse(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	tinyWeights(t, filepath.Join(m.Checkout, "folder", "model.safetensors"))
	if err := os.Link(filepath.Join(m.Checkout, "tiny.safetensors"), filepath.Join(m.Checkout, "linked.safetensors")); err != nil {
		t.Fatal(err)
	}
	m.Write(t, "page.pth", "<html>not found</html>")
	m.Write(t, "broken/x.png", "no image")
	m.Write(t, "empty/readme.txt", "no image")
	write(t, picture(t, 20, color.White), m.Checkout, "photos", "0.png")
	for _, test := range []struct {
		args   []string
		status int
		parts  []string
	}{
		{[]string{"import"}, 2, []string{"one file"}},
		{[]string{"import", "none.pth"}, 1, []string{"none.pth"}},
		{[]string{"import", "page.pth"}, 1, []string{"page.pth: is a web page"}},
		{[]string{"import", "tiny.safetensors", "--out", "x.pth"}, 2, []string{"--out x.pth"}},
		{[]string{"import", "tiny.safetensors", "--arch", "vit-xl16"}, 2, []string{`--arch`, `"vit-xl16"`}},
		{[]string{"import", "tiny.safetensors", "--arch", "vit-s16"}, 1, []string{"tiny.safetensors", "cls_token", "[1 1 64]"}},
		{[]string{"import", "tiny.safetensors", "--branch", "best"}, 1, []string{`no branch "best"`, "it has no named branches"}},
		{[]string{"import", "tiny.safetensors", "--branch", "student"}, 1, []string{`no branch "student"`}},
		{[]string{"import", "tiny.safetensors", "--positions", "linear"}, 2, []string{`--positions "linear"`}},
		{[]string{"import", "tiny.safetensors", "--naming", "jax"}, 2, []string{`--naming "jax"`}},
		{[]string{"import", "tiny.safetensors", "--naming", "transformers", "--out", "x.safetensors"}, 2, []string{"--out x.safetensors", "model.safetensors"}},
		{[]string{"import", "tiny.safetensors", "--naming", "official", "--head", "--out", "x.safetensors"}, 2, []string{"--head"}},
		{[]string{"import", "tiny.safetensors", "--ignore", "none.*"}, 1, []string{`"none.*" matches no key`}},
		{[]string{"import", "tiny.safetensors", "--ignore", "norm.*"}, 1, []string{"missing key norm.weight"}},
		{[]string{"import", "tiny.safetensors", "--heads", "-1"}, 2, []string{"--heads -1"}},
		{[]string{"import", "tiny.safetensors", "--heads", "7"}, 1, []string{"--heads 7: ", "Dim 64 is not a multiple of NumHeads 7"}},
		{[]string{"import", "tiny.safetensors", "--out", "./tiny.safetensors"}, 2, []string{"--out: ./tiny.safetensors would replace the input tiny"}},
		{[]string{"import", "tiny.safetensors", "--out", "linked.safetensors"}, 2, []string{"--out: linked.safetensors would replace the input tiny"}},
		{[]string{"import", "folder", "--out", "folder/model.safetensors"}, 2, []string{"--out: folder/model.safetensors would replace the input folder/model"}},
		{[]string{"import", "tiny.safetensors", "--epsilon", "2"}, 2, []string{"--epsilon 2"}},
		{[]string{"import", "tiny.safetensors", "--arch", "vit-tiny", "--heads", "4"}, 2, []string{"--arch already says"}},
		{[]string{"features", "photos"}, 2, []string{"--weights FILE"}},
		{[]string{"features", "photos", "--weights", "page.pth"}, 1, []string{"page.pth"}},
		{[]string{"features", "nowhere", "--weights", "tiny.safetensors"}, 1, []string{"nowhere"}},
		{[]string{"features", "empty", "--weights", "tiny.safetensors"}, 1, []string{"empty"}},
		{[]string{"features", "broken", "--weights", "tiny.safetensors"}, 1, []string{"x.png", "neither JPEG nor PNG"}},
		{[]string{"features", "photos", "--weights", "tiny.safetensors", "--size", "30"}, 2, []string{"--size 30", "not a multiple"}},
		{[]string{"features", "photos", "--weights", "tiny.safetensors", "--batch", "0"}, 2, []string{"--batch 0"}},
		{[]string{"features", "photos", "--weights", "tiny.safetensors", "--patches"}, 2, []string{"features.npy"}},
		{[]string{"features", "photos", "--weights", "tiny.safetensors", "--out", "x.csv"}, 2, []string{"--out x.csv"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			stdout, stderr, status := outcome(t, onGo(semcon(t, m, test.args...)))
			if status != test.status || stdout != "" {
				t.Errorf("exit status %d, want %d; printed %q", status, test.status, stdout)
			}
			for _, part := range test.parts {
				if lines := strings.Split(strings.TrimSpace(stderr), "\n"); !strings.Contains(lines[len(lines)-1], part) {
					t.Errorf("%q does not contain %q", stderr, part)
				}
			}
		})
	}
}
