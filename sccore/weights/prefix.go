package weights

import (
	"fmt"
	"slices"
	"strings"
)

// anchors end the keys that identify a transformer.
var anchors = []struct {
	text  string
	names naming
}{{"embeddings.cls_token", transformersNames}, {"cls_token", officialNames}} // The first that fits counts.

// findPrefix returns the prefix of the keys of the branch's transformer, and how they are named.
func findPrefix(keys []string, branch string) (prefix string, names naming, err error) {
	var prefixes []string
	named := map[string]naming{}
	for _, key := range keys {
		for _, anchor := range anchors {
			if prefix, ok := strings.CutSuffix(key, anchor.text); ok && (prefix == "" || strings.HasSuffix(prefix, ".")) {
				prefixes, named[prefix] = append(prefixes, prefix), anchor.names
				break
			}
		}
	}
	slices.Sort(prefixes)
	if len(prefixes) == 0 {
		return "", "", fmt.Errorf("contains no vision transformer: none of its %d keys ends with cls_token (%.80s)", len(keys), strings.Join(keys[:min(3, len(keys))], ", "))
	}
	prefix, err = choosePrefix(prefixes, branch)
	return prefix, named[prefix], err
}

func choosePrefix(prefixes []string, branch string) (string, error) {
	wanted := branch
	if wanted == "" {
		wanted = "teacher"
	}
	of := func(name string) (found, others []string) {
		for _, prefix := range prefixes {
			if slices.Contains(strings.Split(prefix, "."), name) {
				found = append(found, prefix)
			} else {
				others = append(others, prefix)
			}
		}
		return found, others
	}
	ofBranch, _ := of(wanted)
	if teachers, others := of("teacher"); wanted == "student" && len(ofBranch) == 0 && len(teachers) > 0 {
		ofBranch = others // Leopart calls its student "model".
	}
	shown := prefixes[:min(4, len(prefixes))]
	switch {
	case len(ofBranch) == 1:
		return ofBranch[0], nil
	case len(ofBranch) == 0 && branch != "":
		return "", fmt.Errorf("contains no branch %q, only %q", branch, shown)
	case len(ofBranch) == 0 && len(prefixes) == 1:
		return prefixes[0], nil
	}
	return "", fmt.Errorf("contains %d transformers, and not exactly one of the %s: %q", len(prefixes), wanted, shown)
}
