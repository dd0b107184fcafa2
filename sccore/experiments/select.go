package experiments

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// named is a cell of any experiment. Its name has parts, with slashes between them.
type named interface{ name() string }

// selected keeps the cells that match one of the patterns. A pattern has parts as the cells' names do, such as dataset/method/row/seed, with
// path.Match's wildcards; parts left out at the end match everything. A pattern that matches nothing is an error that shows what there is.
func selected[C named](cells []C, kinds, patterns []string) ([]C, error) {
	if len(patterns) == 0 {
		return cells, nil
	}
	keep := make([]bool, len(cells))
	for _, pattern := range patterns {
		parts := strings.Split(pattern, "/")
		if len(parts) > len(kinds) {
			return nil, fmt.Errorf("--only %q has more parts than %s", pattern, strings.Join(kinds, "/"))
		}
		for len(parts) < len(kinds) {
			parts = append(parts, "*")
		}
		found := false
		for i, c := range cells {
			match, err := path.Match(strings.Join(parts, "/"), c.name())
			if err != nil {
				return nil, fmt.Errorf("--only %q: %w", pattern, err)
			}
			if match {
				keep[i], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("--only %q matches no run; %s", pattern, whatThereIs(cells, kinds, parts))
		}
	}
	var kept []C
	for i, c := range cells {
		if keep[i] {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// whatThereIs names the first part of a pattern that nothing matches and lists what would.
func whatThereIs[C named](cells []C, kinds, parts []string) string {
	for i, kind := range kinds {
		var names []string
		matched := false
		for _, c := range cells {
			name := strings.Split(c.name(), "/")[i]
			if ok, _ := path.Match(parts[i], name); ok {
				matched = true
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if !matched {
			return fmt.Sprintf("no %s %q among %s", kind, parts[i], strings.Join(names, ", "))
		}
	}
	return "its parts match, but not together"
}
