package settings_test

import (
	"encoding/json"
	"fmt"
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
	for _, assignment := range []string{"rate=0.5", "batch=64", "knn.k=20", "recipe.min_scale=0.2", "recipe.MaxScale=0.9", "encoder=conv4", "recipe.Crop=same"} {
		if err := settings.Apply(&config, assignment); err != nil {
			t.Error(err)
		}
	}
	if config.Rate != 0.5 || config.Batch != 64 || config.KNN.K != 20 || config.Recipe.MinScale != 0.2 || config.Recipe.MaxScale != 0.9 || config.Encoder != "conv4" ||
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

func TestKey(t *testing.T) {
	for key, want := range map[string]string{"views.GlobalSize": "views.global_size", "recipe.Crop": "recipe.crop", "knn.k": "knn.k", "KNN": "knn", "line5.min_area": "line5.min_area"} {
		if got := settings.Key(key); got != want {
			t.Errorf("%s is shown as %s, want %s", key, got, want)
		}
	}
	set := []string{"second.views.global_size=24"}
	if !settings.Given(set, "second.views.GlobalSize") || settings.Given(set, "second.views") {
		t.Error("both forms of a key are given, and its group is not")
	}
}

// TestChangedHasTheNamesOfRecords: what was changed is part of records, and of hashes.
func TestChangedHasTheNamesOfRecords(t *testing.T) {
	config := newSetConfig()
	if err := settings.Apply(&config, "recipe.min_scale=0.2"); err != nil {
		t.Fatal(err)
	}
	if changed, err := settings.Changed("", newSetConfig(), config); err != nil || !slices.Equal(changed, []string{"recipe.MinScale=0.2"}) {
		t.Errorf("%q, %v", changed, err)
	}
	type omitting struct {
		Shares int    `json:"shares,omitzero"`
		Own    bool   `json:"own,omitzero"`
		Name   string `json:"name,omitzero"`
		Sizes  []int  `json:"sizes,omitzero"`
		Group  struct {
			Rate float64 `json:"rate"`
		} `json:"group,omitzero"`
	}
	before := omitting{Shares: 5, Own: true, Name: "x", Sizes: []int{1}}
	before.Group.Rate = 1
	if changed, err := settings.Changed("", before, omitting{}); err != nil || !slices.Equal(changed, []string{"name=", "own=false", "shares=0", "sizes=[]"}) {
		t.Errorf("what is zero now: %q, %v", changed, err)
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

func TestList(t *testing.T) {
	config := struct {
		setConfig
		Rates [2]float64 `json:"rates" range:"(0,1]"`
		Off   setConfig  `json:"off,omitzero"`
	}{setConfig: newSetConfig()}
	listed, err := settings.List(config)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]settings.Setting{}
	for _, s := range listed {
		found[s.Key] = s
	}
	for key, want := range map[string]string{"batch": "512", "rate": "0.08", "encoder": `"resnet18"`, "knn.k": "0", "recipe.min_scale": "0.08", "rates": "[0,0]", "off.batch": "", "recipe": ""} {
		if found[key].Value != want {
			t.Errorf("%s is %q, want %q", key, found[key].Value, want)
		}
	}
	if allowed := found["rates"].Allowed; allowed != "above 0 and at most 1" {
		t.Errorf("rates may be %q", allowed)
	}
}

// ranged has each kind of value that Check checks.
type ranged struct {
	small
	Steps  int                `json:"steps" range:"[1,2^31)"`
	Size   int                `json:"size" range:"0|[8,2048]"`
	Rate   float64            `json:"rate" range:"(0,1e3]"`
	Clip   float64            `json:"clip" range:"[0,)"`
	Share  float64            `json:"share" range:"(0,1)"`
	Power  float64            `range:"(,1]"`
	Head   string             `json:"head" oneof:"linear|fcn"`
	By     string             `json:"by,omitzero" oneof:"|length"`
	Crop   views.CropMode     `json:"crop" oneof:"none|independent|same"`
	Seeds  uint8              `json:"seeds" range:"[1,3]"`
	Rates  [2]float64         `json:"rates" range:"[0,1]"`
	Ways   []small            `json:"ways"`
	Named  map[string]small   `json:"named"`
	Scales map[string]float64 `json:"scales" range:"[0,1]"`
	Far    *small             `json:"far"`
	Near   small              `json:"near,omitzero"`
	Free   float64            `json:"free"`
	_      int                `range:"[1,1]"`
	Local  int                `json:"-" range:"[1,1]"`
}

// small has a rule between fields.
type small struct {
	Low  int `json:"low" range:"[0,10]"`
	High int `json:"high" range:"[1,10]"`
}

func (s small) Rules() error {
	if s.Low > s.High {
		return fmt.Errorf("low %d is above high %d", s.Low, s.High)
	}
	return nil
}

// TestArraysAreGivenWhole: a list of another length is refused, where JSON fills up with zeros.
func TestArraysAreGivenWhole(t *testing.T) {
	config := ranged{Rates: [2]float64{0.5, 1}}
	for value, want := range map[string]string{"[1]": `--set rates=[1]: "[1]" is not 2 values like [0.5,1]`, "[1,1,1]": "is not 2 values", "1": "is not 2 values"} {
		if err := settings.Apply(&config, "rates="+value); err == nil || !strings.Contains(err.Error(), want) || config.Rates != [2]float64{0.5, 1} {
			t.Errorf("%s: %v, %v", value, err, config.Rates)
		}
	}
	if err := settings.Apply(&config, "rates=[0.25, 0]"); err != nil || config.Rates != [2]float64{0.25, 0} {
		t.Errorf("%v, %v", err, config.Rates)
	}
}

func TestCheck(t *testing.T) {
	good := func() ranged {
		s := small{1, 2}
		return ranged{small: s, Steps: 1, Rate: 1, Share: 0.5, Head: "fcn", Crop: views.NoCrop, Seeds: 3, Ways: []small{s, s}, Named: map[string]small{"a": s}, Scales: map[string]float64{"x": 1}, Far: &s}
	}
	if err := settings.Check(good()); err != nil {
		t.Error(err)
	}
	pointer := good()
	pointer.Far, pointer.Ways, pointer.Size, pointer.By, pointer.Power = nil, nil, 8, "length", -1e300
	if err := settings.Check(&pointer); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(c *ranged){
		"steps 0 is not at least 1 and below 2147483648":          func(c *ranged) { c.Steps = 0 },
		"steps 2147483648 is not at least 1 and below 2147483648": func(c *ranged) { c.Steps = 1 << 31 },
		"size 7: want 0 or between 8 and 2048":                    func(c *ranged) { c.Size = 7 },
		"rate 0 is not above 0 and at most 1000":                  func(c *ranged) { c.Rate = 0 },
		"rate NaN is not above 0 and at most 1000":                func(c *ranged) { c.Rate = math.NaN() },
		"clip +Inf is not at least 0":                             func(c *ranged) { c.Clip = math.Inf(1) },
		"share 1 is not above 0 and below 1":                      func(c *ranged) { c.Share = 1 },
		"power 1.5 is not at most 1":                              func(c *ranged) { c.Power = 1.5 },
		`head "mlp": want linear or fcn`:                          func(c *ranged) { c.Head = "mlp" },
		`by "x": want nothing or length`:                          func(c *ranged) { c.By = "x" },
		`crop "some": want none, independent or same`:             func(c *ranged) { c.Crop = "some" },
		"seeds 4 is not between 1 and 3":                          func(c *ranged) { c.Seeds = 4 },
		"rates 2 is not between 0 and 1":                          func(c *ranged) { c.Rates[1] = 2 },
		"ways[1].high 11 is not between 1 and 10":                 func(c *ranged) { c.Ways[1].High = 11 },
		"ways[1].low 3 is above high 2":                           func(c *ranged) { c.Ways[1].Low = 3 },
		"named.a.high 11 is not between 1 and 10":                 func(c *ranged) { c.Named["a"] = small{1, 11} },
		"scales.x 2 is not between 0 and 1":                       func(c *ranged) { c.Scales["x"] = 2 },
		"far.high 0 is not between 1 and 10":                      func(c *ranged) { c.Far = &small{} },
		"near.low 5 is above high 1":                              func(c *ranged) { c.Near = small{5, 1} },
		"low -1 is not between 0 and 10":                          func(c *ranged) { c.Low = -1 },
		"low 3 is above high 2":                                   func(c *ranged) { c.Low = 3 },
	} {
		c := good()
		change(&c)
		if err := settings.Check(c); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, bad := range []any{struct {
		X int `range:"1,2"`
	}{}, struct {
		X int `range:"[1,x]"`
	}{}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T is checked", bad)
				}
			}()
			settings.Check(bad)
		}()
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
