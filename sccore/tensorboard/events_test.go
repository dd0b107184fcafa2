package tensorboard

import (
	"bytes"
	"encoding/json"
	"flag"
	"image"
	"image/png"
	"maps"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/events.out.tfevents.golden anew; then run testdata/read.py")

const golden = "testdata/" + FilePrefix + "golden"

var points = []Point{
	{Step: 0, WallTime: 0, Scalars: map[string]float64{"gauges/rank": 12.5, "gauges/similarity": 1}},
	{Step: 1, WallTime: 1, Scalars: map[string]float64{"loss/total": 3.25}},
	{Step: 300, WallTime: 300, Scalars: map[string]float64{"loss/total": -1e-7, "gauges/rank": 1e30}},
	{Step: 1 << 40, WallTime: 1.5e9, Scalars: nil},
	{Step: 1 << 41, WallTime: 1.5e9, Texts: map[string]string{"settings": "| a | b |"}, Images: map[string][]byte{"features": onePixel}},
}

// onePixel is a PNG.
var onePixel = func() []byte {
	var content bytes.Buffer
	if err := png.Encode(&content, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	return content.Bytes()
}()

// TestEncode: the file is the one that TensorBoard's own reader has read as the points; testdata/read.py runs it.
func TestEncode(t *testing.T) {
	content := Encode(points)
	if *update {
		if err := os.WriteFile(golden, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(content, want) {
		t.Errorf("not the golden bytes: %v", err)
	}
	text, err := os.ReadFile("testdata/read.json")
	if err != nil {
		t.Fatal(err)
	}
	var read []Point
	if err := json.Unmarshal(text, &read); err != nil || len(read) != len(points) {
		t.Fatalf("%d points read, %v", len(read), err)
	}
	for i, p := range points {
		if read[i].Step != p.Step || read[i].WallTime != p.WallTime || len(read[i].Scalars) != len(p.Scalars) ||
			!maps.Equal(read[i].Texts, p.Texts) || !maps.EqualFunc(read[i].Images, p.Images, bytes.Equal) {
			t.Errorf("point %d: TensorBoard reads %+v", i, read[i])
		}
		for name, value := range p.Scalars {
			if float32(read[i].Scalars[name]) != float32(value) {
				t.Errorf("point %d: TensorBoard reads %s as %g, want %g", i, name, read[i].Scalars[name], value)
			}
		}
	}
}

func TestEncodeOnlyAppends(t *testing.T) {
	all := Encode(points)
	for n := 1; n < len(points); n++ {
		if !bytes.HasPrefix(all, Encode(points[:n])) {
			t.Errorf("the file of all points does not begin with the file of %d points", n)
		}
	}
}
