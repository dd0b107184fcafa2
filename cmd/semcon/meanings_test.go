package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// usualMeanings are the meanings of fields that mean the same everywhere and need no comment.
var usualMeanings = map[string]string{
	"Batch":               "Images in a training step.",
	"Steps":               "Number of training steps.",
	"Epochs":              "Number of passes through the training images.",
	"LearningRate":        "Learning rate of the optimizer.",
	"FinalLearningRate":   "Learning rate at the last step.",
	"WarmupSteps":         "Steps in which the learning rate rises from 0 to its peak.",
	"WeightDecay":         "Weight decay of the optimizer.",
	"FinalWeightDecay":    "Weight decay at the last step.",
	"FinalTargetMomentum": "Momentum of the target branch at the last step.",
}

// commentsOf returns the comments of the fields of a package's structs for people who set them, by "Type.Field".
func commentsOf(t *testing.T, folder string) map[string]string {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(folder, err)
	}
	comments := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			structure, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			keys := keysOf(structure)
			for _, field := range structure.Fields.List {
				text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
				for _, name := range field.Names {
					comments[spec.Name.Name+"."+name.Name] = cmp.Or(meaning(name.Name, text, keys), usualMeanings[name.Name])
				}
			}
			return true
		})
	}
	return comments
}

// keysOf returns the keys of a struct's fields, by their names in Go.
func keysOf(structure *ast.StructType) map[string]string {
	keys := map[string]string{}
	for _, field := range structure.Fields.List {
		tag := ""
		if field.Tag != nil {
			tag, _ = strconv.Unquote(field.Tag.Value)
		}
		key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		for _, name := range field.Names {
			keys[name.Name] = cmp.Or(key, name.Name)
		}
	}
	return keys
}

var word = regexp.MustCompile(`\pL[\pL\d]*`)

// meaning is a field's comment without the field's name in front, and with keys in place of the names of fields. A name of one word counts only within a
// sentence: in front of one it is a plain word.
func meaning(name, comment string, keys map[string]string) string {
	for _, opening := range []struct{ pattern, kept string }{
		{" (?:is|are) ", ""}, {" in (\\[.*?\\]) is ", "In $1: "}, {", (from .*?), is ", "$1: "}, {" ((?:draw|take|keep|split|leave|round|change)s )", "$1"},
	} {
		comment = regexp.MustCompile("^"+name+opening.pattern).ReplaceAllString(comment, opening.kept)
	}
	if comment == "" {
		return ""
	}
	var text strings.Builder
	last := 0
	for _, at := range word.FindAllStringIndex(comment, -1) {
		key, isField := keys[comment[at[0]:at[1]]]
		one := strings.IndexFunc(comment[at[0]+1:at[1]], unicode.IsUpper) < 0
		before, after := comment[:at[0]], comment[at[1]:]
		opens := before == "" || strings.HasSuffix(before, ". ") || strings.HasSuffix(before, ": ") || strings.HasPrefix(after, "–") // As in Sinkhorn–Knopp.
		if isField && !(one && opens) {
			text.WriteString(comment[last:at[0]] + key)
			last = at[1]
		}
	}
	text.WriteString(comment[last:])
	first, size := utf8.DecodeRuneInString(text.String())
	return string(unicode.ToUpper(first)) + text.String()[size:]
}

// words are the words of a field's name: WeightDecay is "weight decay".
func words(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "$1 $2"))
}

// goReference is a link to Go code, such as [sccore.Config] or [Slide], or a name such as encoder.ByName. [CLS] and [0, 1] are not links.
var goReference = regexp.MustCompile(`\[[A-Za-z.]*[a-z][A-Za-z.]*\]|\b[a-z]+\.[A-Z]\w*`)

// whyUnreadable says what makes a meaning useless to someone who has not seen the code; empty if nothing does.
func whyUnreadable(name, text string) string {
	switch {
	case text == "":
		return "has no comment"
	case goReference.MatchString(text):
		return "refers to Go code"
	case strings.EqualFold(strings.TrimSuffix(text, "."), words(name)):
		return "repeats the name"
	}
	return ""
}

func TestMeaningsAreForPeopleWhoSet(t *testing.T) {
	keys := map[string]string{"Noise": "noise", "Level": "level", "FinalRate": "final_rate", "Images": "images"}
	for _, c := range []struct{ name, comment, want string }{
		{"Every", "Every is the number of steps.", "The number of steps."},
		{"Noise", "Noise in [0, 1] is the share of pairs.", "In [0, 1]: the share of pairs."},
		{"Share", "Share, from 0 to 0.5, is held out.", "From 0 to 0.5: held out."},
		{"Fixed", "Fixed draws Noise once. Noise is else drawn anew.", "Draws noise once. Noise is else drawn anew."},
		{"Rate", "A cosine to FinalRate; a share Level of [CLS] tokens.", "A cosine to final_rate; a share level of [CLS] tokens."},
		{"Images", "Images per step.", "Images per step."},
	} {
		if got := meaning(c.name, c.comment, keys); got != c.want || whyUnreadable(c.name, got) != "" {
			t.Errorf("%q has the meaning %q, want %q", c.comment, got, c.want)
		}
	}
	for _, bad := range []string{"", "[ByGradient], or empty.", "See [Config.Control].", "A name that encoder.ViTByName knows.", "Weight decay.", "weight decay"} {
		if whyUnreadable("WeightDecay", bad) == "" {
			t.Errorf("%q counts as readable", bad)
		}
	}
}
