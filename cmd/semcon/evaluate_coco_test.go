package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/evaluation"
)

// One object of 40×40 pixels, found as a box of 40×30: an IoU of 0.75.
const (
	oneObject = `{"images": [{"id": 5, "height": 80, "width": 100}], "categories": [{"id": 3}], "annotations": [
		{"id": 1, "image_id": 5, "category_id": 3, "bbox": [10, 20, 40, 40], "area": 1600, "iscrowd": 0, "segmentation": [[10, 20, 50, 20, 50, 60, 10, 60]]}]}`
	oneBox  = `[{"image_id": 5, "category_id": 3, "bbox": [10, 20, 40, 30], "score": 0.5}]`
	oneMask = `[{"image_id": 5, "category_id": 3, "segmentation": [[10, 20, 50, 20, 50, 50, 10, 50]], "score": 0.5}]`
)

const sixTenths = ` Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.600
 Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = 1.000
 Average Precision  (AP) @[ IoU=0.75      | area=   all | maxDets=100 ] = 1.000
 Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = -1.000
 Average Precision  (AP) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = 0.600
 Average Precision  (AP) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = -1.000
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=  1 ] = 0.600
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets= 10 ] = 0.600
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.600
 Average Recall     (AR) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = -1.000
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = 0.600
 Average Recall     (AR) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = -1.000
`

func TestEvaluateCOCO(t *testing.T) {
	m := newMachine(t)
	m.Write(t, "truth.json", oneObject)
	m.Write(t, "boxes.json", oneBox)
	m.Write(t, "masks.json", oneMask)
	evaluate := func(more ...string) (string, string, int) {
		return outcome(t, semcon(t, m, append([]string{"evaluate", "coco", "--annotations", "truth.json"}, more...)...))
	}
	if stdout, stderr, status := evaluate("--detections", "boxes.json"); status != 0 || stderr != "" || stdout != "boxes\n"+sixTenths {
		t.Errorf("boxes: exit status %d, %s\n%s", status, stderr, stdout)
	}
	if stdout, stderr, status := evaluate("--detections", "masks.json"); status != 0 || stderr != "" || stdout != "boxes\n"+sixTenths+"\nmasks\n"+sixTenths {
		t.Errorf("masks: exit status %d, %s\n%s", status, stderr, stdout)
	}

	stdout, _, status := evaluate("--detections", "masks.json", "--format", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 {
		t.Fatalf("exit status %d, %v: %s", status, err, stdout)
	}
	for _, kind := range []string{"boxes", "masks"} {
		if numbers := got[kind].(map[string]any); len(numbers) != 12 || numbers["AP50"].(float64) < 0.999999 || numbers["ARs"] != -1.0 {
			t.Errorf("%s: %v", kind, numbers)
		}
	}
	if got["images"] != 1.0 || got["detections"] != 1.0 || got["annotations"] != 1.0 || got["skipped_annotations"] != 0.0 {
		t.Errorf("%v", got)
	}
}

func TestEvaluateCOCOSaysWhatDoesNotCount(t *testing.T) {
	m := newMachine(t)
	m.Write(t, "truth.json", strings.Replace(oneObject, `"annotations": [`, `"annotations": [{"id": 7}, {"id": 0, "image_id": 5, "category_id": 3, "bbox": [0, 0, 1, 1], "area": 1},`, 1))
	m.Write(t, "boxes.json", strings.Replace(oneBox, "[", `[{"image_id": 5, "category_id": 4, "bbox": [10, 20, 40, 30], "score": 0.5},`, 1))
	stdout, stderr, status := outcome(t, semcon(t, m, "evaluate", "coco", "--annotations", "truth.json", "--detections", "boxes.json"))
	want := `skipped truth.json: annotation 7: it has no image_id
truth.json: annotation 0 counts as missed, as in pycocotools: number annotations from 1
boxes.json: 1 detections have categories that truth.json does not have, and do not count
`
	if status != 0 || stderr != want || !strings.HasPrefix(stdout, "left out: 1 annotations\nboxes\n") {
		t.Errorf("exit status %d, %s\n%s", status, stderr, stdout)
	}
}

// TestEvaluateCOCOGoesOnWithoutAMask: boxes count, as in pycocotools, and masks are judged among the annotations that have one.
func TestEvaluateCOCOGoesOnWithoutAMask(t *testing.T) {
	m := newMachine(t)
	m.Write(t, "truth.json", strings.Replace(oneObject, `"annotations": [`, `"annotations": [{"id": 7, "image_id": 5, "category_id": 3, "bbox": [60, 0, 20, 20], "area": 400, "segmentation": []},`, 1))
	m.Write(t, "masks.json", oneMask)
	stdout, stderr, status := outcome(t, semcon(t, m, "evaluate", "coco", "--annotations", "truth.json", "--detections", "masks.json"))
	if status != 0 || stderr != "masks: skipped truth.json: annotation 7: it has no segmentation\n" || !strings.HasSuffix(stdout, "masks\n"+sixTenths) || !strings.HasPrefix(stdout, "left out: 1 masks\nboxes\n") || strings.Contains(stdout, "boxes\n"+sixTenths) {
		t.Errorf("exit status %d, %s\n%s", status, stderr, stdout)
	}
}

func TestEvaluateErrors(t *testing.T) {
	m := newMachine(t)
	m.Write(t, "truth.json", oneObject)
	m.Write(t, "boxes.json", oneBox)
	m.Write(t, "empty.json", strings.Replace(oneObject, `"iscrowd"`, `"iscrowd": 1, "was"`, 1))
	m.Write(t, "none.json", "[]")
	m.Write(t, "cut.json", oneBox[:20])
	m.Write(t, "mixed.json", strings.Replace(oneBox, "]}", "]},", 1)[:len(oneBox)-1]+`, {"image_id": 5, "category_id": 3, "segmentation": [[10, 20, 50, 20, 50, 50, 10, 50]], "score": 0.5}]`)
	names := append(evaluation.Names(), "coco")
	slices.Sort(names)
	want := "want one evaluation of " + strings.Join(names, ", ") + ", got "
	for _, test := range []struct {
		args   string
		status int
		stderr string
	}{
		{"", 2, want + "none"},
		{"voc", 2, "there is no evaluation voc, want one of " + strings.Join(names, ", ")},
		{"voc coco", 2, want + "2 (voc, coco)"},
		{"bogus --weights w --seed 3", 2, "there is no evaluation bogus, want one of "},
		{"--weights w bogus --seed 3", 2, "there is no evaluation bogus, want one of "},
		{"--weights=w --seed 3 overclusterin", 2, "did you mean overclustering?"},
		{"--weights w", 2, "there is no flag --weights"},
		{"coco --annotations empty.json --detections boxes.json", 1, "empty.json: has no annotation that can be used, other than crowds"},
		{"coco", 2, "--annotations FILE is missing"},
		{"coco --annotations truth.json", 2, "--detections FILE is missing"},
		{"coco --annotations truth.json --detections boxes.json --format xml", 2, `--format "xml": want text or json`},
		{"coco --annotations nowhere.json --detections boxes.json", 1, "nowhere.json: no such file or directory"},
		{"coco --annotations boxes.json --detections boxes.json", 1, "boxes.json: want a JSON object at byte 1"},
		{"coco --annotations truth.json --detections nowhere.json", 1, "nowhere.json: no such file or directory"},
		{"coco --annotations truth.json --detections none.json", 1, "none.json: has no detections"},
		{"coco --annotations truth.json --detections cut.json", 1, "cut.json: detection 0: ends too soon"},
		{"coco --annotations truth.json --detections mixed.json", 1, "mixed.json: detection 1: it has no box, and detection 0 has one"},
	} {
		t.Run(test.args, func(t *testing.T) {
			stdout, stderr, status := outcome(t, semcon(t, m, append([]string{"evaluate"}, strings.Fields(test.args)...)...))
			if status != test.status || stdout != "" {
				t.Errorf("exit status %d, want %d; printed %q", status, test.status, stdout)
			}
			verb, _, _ := strings.Cut(test.args, " ")
			wantLine(t, stderr, lo.Ternary(verb == "coco", "semcon evaluate coco: ", "semcon evaluate: "), test.stderr)
		})
	}
}
