package weights_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/weights"
)

func TestCardSaysHowToLoad(t *testing.T) {
	vit, err := encoder.ViTByName("vit-s16")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "runs", "online.safetensors")
	card := weights.Card{ViT: vit, Preprocessing: datasets.DefaultPreprocessing(), Size: 224, Facts: []weights.Fact{{Name: "Data", Text: "ImageNet"}, {Name: "Settings", Text: `{"a":1}`}}}
	text := func() string {
		t.Helper()
		if err := card.Write(file); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(weights.CardPath(file))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	const want = `# online.safetensors

A vision transformer (vit-s16): patches of 16 pixels, width 384, 12 blocks, 6 heads, positions of a grid of 14×14, resized as in dino.

Images: shorter side resized to 256 px (bicubic), centre crop of 224 px, ImageNet's mean and deviation.

In Go:

~~~go
vit, err := semcon.Open("online.safetensors")       // github.com/semcon/semcon
features, err := vit.Features(img) // Any image.Image.
fmt.Println(len(features.Class), features.Rows, features.Columns, len(features.Patch(0, 0)))
~~~

In Python with timm:

~~~python
import safetensors.torch, timm
model = timm.models.VisionTransformer(img_size=224, patch_size=16, embed_dim=384, depth=12, num_heads=6, num_classes=0, dynamic_img_size=True).eval()
model.load_state_dict(safetensors.torch.load_file("online.safetensors"))
~~~

Data: ImageNet

Settings:

~~~
{"a":1}
~~~
`
	if got := strings.ReplaceAll(text(), "```", "~~~"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	card.Head = true
	if got := text(); !strings.Contains(got, `.safetensors"), strict=False)  # without the projection head`) {
		t.Error(got)
	}
	card.ViT.Prototypes = 64
	if got := text(); !strings.Contains(got, "with 64 prototypes") || !strings.Contains(got, "strict=False)  # timm has no filter") {
		t.Error(got)
	}
	if weights.CardPath("folder") != filepath.Join("folder", "README.md") {
		t.Error("a folder's card is its README")
	}
}
