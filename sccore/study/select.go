package study

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Select reports which of the named cells match at least one pattern. A pattern has the same parts as the names, such as dataset/method/row/seed, with
// the wildcards of path.Match. Missing parts at the end match everything. kinds names the parts; names with fewer parts lack the first kinds. A pattern
// that matches nothing is an error that lists the alternatives.
func Select(names, kinds, patterns []string) ([]bool, error) {
	keep := make([]bool, len(names))
	if len(patterns) == 0 || len(names) == 0 {
		for i := range keep {
			keep[i] = true
		}
		return keep, nil
	}
	kinds = kinds[max(0, len(kinds)-len(strings.Split(names[0], "/"))):]
	for _, pattern := range patterns {
		parts := strings.Split(pattern, "/")
		if len(parts) > len(kinds) {
			return nil, fmt.Errorf("--only %q has more parts than %s", pattern, strings.Join(kinds, "/"))
		}
		for len(parts) < len(kinds) {
			parts = append(parts, "*")
		}
		matched := false
		for i, name := range names {
			match, err := path.Match(strings.Join(parts, "/"), name)
			if err != nil {
				return nil, fmt.Errorf("--only %q: %w", pattern, err)
			}
			if match {
				keep[i], matched = true, true
			}
		}
		if !matched {
			return nil, fmt.Errorf("--only %q matches no run; %s", pattern, mismatch(names, kinds, parts))
		}
	}
	return keep, nil
}

// mismatch names the first part of a pattern that no cell matches, and lists what the cells have there.
func mismatch(names, kinds, parts []string) string {
	for i, kind := range kinds {
		var all []string
		matched := false
		for _, name := range names {
			part := strings.Split(name, "/")[i]
			if ok, _ := path.Match(parts[i], part); ok {
				matched = true
			}
			if !slices.Contains(all, part) {
				all = append(all, part)
			}
		}
		if !matched {
			return fmt.Sprintf("no %s %q among %s", kind, parts[i], strings.Join(all, ", "))
		}
	}
	return "each part matches some run, but no run matches them all"
}
