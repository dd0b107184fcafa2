package experiments

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/views"
)

func TestApplySet(t *testing.T) {
	config := effectAugConfig(Full, methods.MoCo)
	for _, assignment := range []string{"rate=0.5", "batch=64", "knn.k=20", "recipe.MinScale=0.2", "encoder=conv4", "recipe.Crop=same"} {
		if err := applySet(&config, assignment); err != nil {
			t.Error(err)
		}
	}
	if config.Rate != 0.5 || config.Batch != 64 || config.KNN.K != 20 || config.Recipe.MinScale != 0.2 || config.Encoder != "conv4" ||
		config.Recipe.Crop != views.SameCrop || config.Queue != 4096 {
		t.Errorf("configuration is %+v", config)
	}
}

func TestApplySetNamesWhatIsWrong(t *testing.T) {
	for assignment, want := range map[string]string{
		"rate":              "key=value",
		"speed=3":           `"speed"`,
		"knn.q=3":           `"q"`,
		"knn=3":             `"knn" is a group`,
		"rate.x=3":          `"rate" is a value`,
		"batch=many":        `"many" is not a number`,
		"batch=1.5":         `"1.5" is not a number`,
		"recipe.Blur=maybe": `"maybe" is not true or false`,
		"recipe.Crop=half":  "half",
	} {
		config := effectAugConfig(Quick, methods.SimCLR)
		before := string(configJSON(config))
		err := applySet(&config, assignment)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), assignment) || strings.Contains(err.Error(), "\n") {
			t.Errorf("--set %s: error %v is not one line with %q", assignment, err, want)
		}
		if after := string(configJSON(config)); after != before {
			t.Errorf("--set %s failed and changed the configuration", assignment)
		}
	}
}

func TestHashNamesTheConfiguration(t *testing.T) {
	a, b := effectAugConfig(Quick, methods.SimCLR), effectAugConfig(Quick, methods.SimCLR)
	if hashOf(configJSON(a)) != hashOf(configJSON(b)) {
		t.Error("equal configurations have different hashes")
	}
	b.Rate *= 2
	if hashOf(configJSON(a)) == hashOf(configJSON(b)) {
		t.Error("different configurations have one hash")
	}
	var back EffectAugConfig
	if err := json.Unmarshal(configJSON(a), &back); err != nil || back != a {
		t.Errorf("configuration read back as %+v, %v", back, err)
	}
}
