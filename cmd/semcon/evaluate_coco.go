package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
)

// runEvaluateCOCO judges a file of detections.
func runEvaluateCOCO(annotations, detections, format string) error {
	switch {
	case annotations == "":
		return usagef("--annotations FILE is missing")
	case detections == "":
		return usagef("--detections FILE is missing")
	}
	result, err := evaluateCOCO(annotations, detections)
	if err != nil {
		return err
	}
	if format == "json" {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(result)
	}
	fmt.Printf("boxes\n%s", result.Boxes)
	if result.Masks != nil {
		fmt.Printf("\nmasks\n%s", result.Masks)
	}
	return nil
}

// cocoResult is what --format json prints.
type cocoResult struct {
	Images             int             `json:"images"`
	Annotations        int             `json:"annotations"`
	SkippedAnnotations int             `json:"skipped_annotations"`
	Detections         int             `json:"detections"`
	UnknownCategories  int             `json:"unknown_categories"` // Detections of them.
	Boxes              metrics.COCOAP  `json:"boxes"`
	Masks              *metrics.COCOAP `json:"masks,omitempty"` // Nil if no detection has one.
}

// evaluateCOCO judges boxes, and masks where detections have them. What does not count is said on standard error.
func evaluateCOCO(annotations, detections string) (r cocoResult, err error) {
	truth, err := datasets.OpenInstances(annotations)
	if err != nil {
		return r, err
	}
	found, err := metrics.OpenDetections(detections, truth)
	if err != nil {
		return r, err
	}
	if len(found) == 0 {
		return r, fmt.Errorf("%s: has no detections", detections)
	}
	r = cocoResult{Images: len(truth.Images), Annotations: len(truth.Annotations), SkippedAnnotations: truth.SkippedCount, Detections: len(found)}
	masked := false
	for _, d := range found {
		masked = masked || d.Mask != nil
		if !truth.HasCategory(d.Category) {
			r.UnknownCategories++
		}
	}
	warnOfUncounted(truth, detections, r)
	if r.Boxes, err = metrics.EvaluateCOCO(truth, found, metrics.Boxes); err != nil {
		return r, inFile(detections, err)
	}
	if masked {
		for _, s := range truth.RequireMasks() {
			fmt.Fprintf(os.Stderr, "masks: skipped %s: %s\n", s.File, s.Reason)
		}
		masks, err := metrics.EvaluateCOCO(truth, found, metrics.Masks)
		if err != nil {
			return r, inFile(detections, err)
		}
		r.Masks = &masks
	}
	return r, nil
}

// inFile adds the file to an error about a detection; one about the truth names its file.
func inFile(detections string, err error) error {
	if strings.HasPrefix(err.Error(), "detection ") {
		return fmt.Errorf("%s: %w", detections, err)
	}
	return err
}

func warnOfUncounted(truth *datasets.Instances, detections string, r cocoResult) {
	for _, s := range truth.Skipped {
		fmt.Fprintf(os.Stderr, "skipped %s: %s\n", s.File, s.Reason)
	}
	if r.SkippedAnnotations > 0 {
		fmt.Fprintf(os.Stderr, "skipped %d of %d annotations\n", r.SkippedAnnotations, r.SkippedAnnotations+r.Annotations)
	}
	for _, a := range truth.Annotations {
		if a.ID == 0 {
			fmt.Fprintf(os.Stderr, "%s: annotation 0 counts as missed, as in pycocotools: number annotations from 1\n", truth.Name)
		}
	}
	if r.UnknownCategories > 0 {
		fmt.Fprintf(os.Stderr, "%s: %d detections have categories that %s does not have, and do not count\n", detections, r.UnknownCategories, truth.Name)
	}
}
