package weights

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// wrapper is a part of a key that training code adds: DataParallel, DeepSpeed, torch.compile, FSDP and activation checkpointing wrap modules anywhere.
const wrapper = `(?:_?module|_orig_mod|_checkpoint_wrapped_module|_fsdp_wrapped_module|_forward_module)\.`

var wrappers = regexp.MustCompile(`(^|\.)` + wrapper + `(?:` + wrapper + `)*`)

// unwrapped is a key without the parts of wrappers.
func unwrapped(key string) string { return wrappers.ReplaceAllString(key, "$1") }

// anchors are the keys that identify a transformer, after its prefix. The first that fits counts.
var anchors = []struct {
	key   *regexp.Regexp
	names Naming
}{
	{regexp.MustCompile(`^((?:.*\.)?)embeddings\.(?:` + wrapper + `)*cls_token$`), Transformers},
	{regexp.MustCompile(`^((?:.*\.)?)cls_token$`), Official},
}

// findPrefix returns the prefix of the keys of the branch's transformer, and how they are named. Official stands for timm's names too.
func findPrefix(keys []string, branch string) (prefix string, n Naming, err error) {
	var prefixes []string
	named := map[string]Naming{}
	for _, key := range keys {
		for _, anchor := range anchors {
			if found := anchor.key.FindStringSubmatch(key); found != nil {
				prefixes, named[found[1]] = append(prefixes, found[1]), anchor.names
				break
			}
		}
	}
	slices.Sort(prefixes)
	switch {
	case len(keys) == 0:
		return "", "", errors.New("contains no vision transformer: there are no tensors in it")
	case len(prefixes) == 0:
		return "", "", fmt.Errorf("contains no vision transformer: none of its %d keys ends with cls_token (%.80s)",
			len(keys), strings.Join(keys[:min(3, len(keys))], ", "))
	}
	prefix, err = choosePrefix(prefixes, branch)
	return prefix, named[prefix], err
}

// Undecided is the error of a file that can be read if the caller of [ReadViT] decides something.
type Undecided struct {
	error
	Argument string // What decides: "branch", "ignore", or "heads" of the wanted transformer.
	Key      string // Of the file, for "ignore".
}

// choosePrefix returns the prefix of a branch, which is named by the whole prefix, by a part of it between dots or by a word of a part. Without a branch it
// is the one that the makers evaluate: the teacher; the moving average where timm keeps one beside the weights; else what is not the branch that follows
// another one, as in MoCo, BYOL and solo-learn.
func choosePrefix(prefixes []string, branch string) (string, error) {
	named := func(names ...string) (whole, word, others []string) {
		for _, prefix := range prefixes {
			has := func(parts []string) bool {
				return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(parts, name) })
			}
			switch around := strings.Trim(prefix, "."); {
			case has(append(strings.Split(around, "."), around)):
				whole = append(whole, prefix)
			case has(strings.FieldsFunc(around, func(r rune) bool { return r == '.' || r == '_' })):
				word = append(word, prefix)
			default:
				others = append(others, prefix)
			}
		}
		return whole, word, others
	}
	first := func(lists ...[]string) []string {
		i := max(slices.IndexFunc(lists, func(list []string) bool { return len(list) > 0 }), 0)
		return lists[i]
	}
	branch = strings.Trim(branch, ".")
	whole, word, _ := named(cmp.Or(branch, "teacher"))
	found := first(whole, word)
	switch {
	case branch == "" && len(found) == 0:
		ema, averages, _ := named("ema")
		_, _, leaders := named("momentum", "target", "k")
		found = first(ema, averages, leaders, prefixes)
	case branch == "student" && len(found) == 0: // Leopart calls its student "model".
		if whole, word, others := named("teacher"); len(whole)+len(word) > 0 {
			found = others
		}
	}
	shown := prefixes[:min(4, len(prefixes))]
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return "", Undecided{fmt.Errorf("contains no branch %.50q, only %.50q", branch, shown), "branch", ""}
	}
	return "", Undecided{fmt.Errorf("contains %d transformers: %.50q", len(prefixes), shown), "branch", ""}
}
