package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/study"
)

// TestEveryVerbThatPrintsHasJSON: what they print with --format json is one value of JSON, also without records and data.
func TestEveryVerbThatPrintsHasJSON(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, m.Checkout+"/tiny.safetensors")
	r := study.Record{
		Experiment: "main", Cell: "synthetic/random/seed0", Dataset: "synthetic", Kind: "synthetic", Row: "random", Column: "synthetic objects and scenes",
		Metric: "k-NN accuracy", Unit: "%", Value: 12.5, Profile: study.Smoke, Config: json.RawMessage("{}"), ConfigHash: "abc", Details: map[string]float64{"knn_Acc@1": 12.5},
	}
	if err := r.Append(study.Folder(m.Checkout+"/out", "main")); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"list main": `"name": "main"`, "status": `"recorded": `, "table main --profile smoke": `"values": [`, "claims": `"verdict": "no runs"`, "data": "[]", "doctor": `"what": "engine"`,
		"import tiny.safetensors": `"architecture": "vit-tiny"`, "import --list": `"where": "facebook/dino-vits16"`, "compare main main --profile smoke": `"differences": [`,
	} {
		stdout, stderr, _ := outcome(t, onGo(semcon(t, m, append(strings.Fields(args), "--format", "json")...)))
		if !json.Valid([]byte(stdout)) || !strings.Contains(stdout, want) {
			t.Errorf("%s: no JSON with %s: %s%s", args, want, stdout, stderr)
		}
	}
}

// Example_printLines: what is not a number is null.
func Example_printLines() {
	printLines("row,mean,values\na,NaN,NaN 1\n")
	// Output:
	// [
	//   {
	//     "mean": null,
	//     "row": "a",
	//     "values": [
	//       null,
	//       1
	//     ]
	//   }
	// ]
}
