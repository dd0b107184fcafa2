package settings_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/views"
)

// common holds the settings that several methods share; configurations embed it.
type common struct {
	Encoder string  `json:"encoder"`
	Batch   int     `json:"batch"`
	Queue   int     `json:"queue"`
	Rate    float64 `json:"rate"`
}

// setConfig has each kind of value that --set changes.
type setConfig struct {
	common
	Recipe views.Recipe `json:"recipe"`
	KNN    struct {
		K int `json:"k"`
	} `json:"knn"`
}

func newSetConfig() setConfig {
	return setConfig{common: common{Encoder: "resnet18", Batch: 512, Queue: 4096, Rate: 0.08}, Recipe: views.Default()}
}

func TestApply(t *testing.T) {
	config := newSetConfig()
	for _, assignment := range []string{"rate=0.5", "batch=64", "knn.k=20", "recipe.MinScale=0.2", "encoder=conv4", "recipe.Crop=same"} {
		if err := settings.Apply(&config, assignment); err != nil {
			t.Error(err)
		}
	}
	if config.Rate != 0.5 || config.Batch != 64 || config.KNN.K != 20 || config.Recipe.MinScale != 0.2 || config.Encoder != "conv4" ||
		config.Recipe.Crop != views.SameCrop || config.Queue != 4096 {
		t.Errorf("configuration is %+v", config)
	}
}

func TestApplyNamesWhatIsWrong(t *testing.T) {
	for assignment, want := range map[string]string{
		"rate":              "key=value",
		"speed=3":           `"speed"`,
		"knn.q=3":           `"q"`,
		"knn=3":             `"knn" is a group`,
		"rate.x=3":          `"rate" is a single value`,
		"batch=many":        `"many" is not a number`,
		"batch=1.5":         `"1.5" is not a number`,
		"recipe.Blur=maybe": `"maybe" is not true or false`,
		"recipe.Crop=half":  "half",
	} {
		config := newSetConfig()
		before := encode(t, config)
		err := settings.Apply(&config, assignment)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), assignment) || strings.Contains(err.Error(), "\n") {
			t.Errorf("--set %s: error %v is not one line with %q", assignment, err, want)
		}
		if after := encode(t, config); after != before {
			t.Errorf("--set %s failed and changed the configuration", assignment)
		}
	}
}

func TestForOneKind(t *testing.T) {
	set := []string{"rate=1", "bce.rate=2", "cotap.rate=3", "cotap.tau1=4", "views.size=5"}
	for kind, want := range map[string][]string{
		"bce":   {"rate=1", "rate=2", "cotap.tau1=4", "views.size=5"},
		"cotap": {"rate=1", "rate=3", "cotap.tau1=4", "views.size=5"},
	} {
		if got := settings.For(set, kind, []string{"bce", "cotap"}, "cotap.tau1"); !slices.Equal(got, want) {
			t.Errorf("%s gets %v, want %v", kind, got, want)
		}
	}
}

func encode(t *testing.T, config any) string {
	t.Helper()
	encoded, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

func TestNumbers(t *testing.T) {
	config := struct {
		setConfig
		Rates [2]float64 `json:"rates"`
	}{setConfig: newSetConfig()}
	numbers, err := settings.Numbers(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"batch", "queue", "rate", "knn.k", "recipe.MinScale", "rates"} {
		if _, ok := numbers[want]; !ok {
			t.Errorf("%s is missing among %v", want, numbers)
		}
	}
	for _, other := range []string{"encoder", "recipe", "recipe.Crop", "recipe.Blur"} {
		if _, ok := numbers[other]; ok {
			t.Errorf("%s is no number", other)
		}
	}
}

func TestBounds(t *testing.T) {
	nan := math.NaN()
	for _, one := range []struct {
		err  error
		want string
	}{
		{settings.Between("k", 3, 1, 3), ""},
		{settings.Between("k", 4, 1, 3), "k 4 is not between 1 and 3"},
		{settings.Between("batch", 99999999.0, 2, 65536), "batch 99999999 is not between 2 and 65536"},
		{settings.Between("rate", 1e300, 0, 1), "rate 1e+300 is not between 0 and 1"},
		{settings.Between("rate", nan, 0, 1), "rate NaN is not between 0 and 1"},
		{settings.Above("rate", 1, 1), ""},
		{settings.Above("rate", 0, 1), "rate 0 is not above 0 and at most 1"},
		{settings.Above("rate", nan, 1), "rate NaN is not above 0 and at most 1"},
		{settings.Fit(settings.MaxBytes, "images 2", 2, 1<<30), ""},
		{settings.Fit(settings.MaxBytes, "images 3", 3, 1<<30), "images 3: an array of 3 GiB, more than 2"},
		{settings.Fit(settings.MaxBytes, "images", math.MaxInt, math.MaxInt, math.MaxInt), "images: an array of 7.31e+47 GiB, more than 2"},
		{settings.Fit(settings.MaxBytes, "images", -1, math.MaxInt), ""},
	} {
		got := ""
		if one.err != nil {
			got = one.err.Error()
		}
		if got != one.want {
			t.Errorf("%q, want %q", got, one.want)
		}
	}
}
