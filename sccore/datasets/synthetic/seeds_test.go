package synthetic

import (
	"bytes"
	"strings"
	"testing"
)

func TestRunsDrawTheirOwnImages(t *testing.T) {
	first, second := Run(0).Scenes(6, 16, 2), Run(1).Scenes(6, 16, 2)
	if bytes.Equal(first.Pixels, second.Pixels) || first.Identity != second.Identity {
		t.Errorf("two runs have the same images or unlike identities: %s, %s", first.Identity, second.Identity)
	}
	if !bytes.Equal(first.Pixels, Scenes(6, 16, 2).Pixels) {
		t.Error("run 0 does not have the images of the set's seed")
	}
	const want = "synthetic scenes (set 2, drawn for each seed): 6 images 16×16, 6 classes, sha256 "
	if !strings.HasPrefix(first.Identity, want) || !strings.HasSuffix(first.Identity, " of the first 4 of seed 0") {
		t.Errorf("identity %s", first.Identity)
	}
	for name, identities := range map[string][2]string{
		"number":     {first.Identity, Run(0).Scenes(7, 16, 2).Identity},
		"size":       {first.Identity, Run(0).Scenes(6, 24, 2).Identity},
		"set":        {first.Identity, Run(0).Scenes(6, 16, 4).Identity},
		"kind":       {first.Identity, Run(0).Objects(6, 16, 2).Identity},
		"of images":  {Run(0).Images(6, 16, 1).Identity, Run(0).Images(6, 24, 1).Identity},
		"of videos":  {Run(0).Videos(1, 2, 16, 1).Identity, Run(0).Videos(1, 3, 16, 1).Identity},
		"of segment": {Run(0).Scenes(3, 16, 1).Segmentation().Identity, Run(0).Scenes(3, 16, 2).Segmentation().Identity},
	} {
		if identities[0] == identities[1] {
			t.Errorf("%s: both are %s", name, identities[0])
		}
	}
	if one, other := Run(0).Videos(1, 2, 16, 1), Run(3).Videos(1, 2, 16, 1); one.Identity != other.Identity || !strings.Contains(one.Identity, "set 1, drawn for each seed") {
		t.Errorf("videos of two runs: %s, %s", one.Identity, other.Identity)
	}
	if one, other := Run(0).Images(8, 16, 1), Run(3).Images(8, 16, 1); one.Identity != other.Identity || bytes.Equal(one.Pixels, other.Pixels) {
		t.Errorf("images of two runs: %s, %s", one.Identity, other.Identity)
	}
}
