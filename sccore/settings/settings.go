// Package settings changes configurations by name, as --set does, checks them, and lists how two configurations differ.
//
// In go a configuration, which is a struct with JSON names, and assignments such as "knn.k=20". Out comes the changed configuration, or an error that
// names the key, the value and the alternatives. A new kind of setting is a new case in Apply.
//
// What a setting may be is a tag of its field, which [Check] holds and "semcon settings" prints:
//
//	Batch    int     `json:"batch" range:"[1,2^14]"`    // 1 to 16384. A number is a decimal or a power.
//	Rate     float64 `json:"rate" range:"(0,1e3]"`      // Above 0 and at most 1000.
//	Epsilon  float64 `json:"epsilon" range:"[0,)"`      // 0 or more, and finite.
//	Size     int     `json:"size" range:"0|[8,2048]"`   // 0, which switches it off, or 8 to 2048.
//	Head     string  `json:"head" oneof:"linear|fcn"`   // One of two texts.
//	LambdaBy string  `json:"lambda_by" oneof:"|length"` // Nothing or a text.
//
// The range of a list or a map applies to its elements. Check leaves out a group of range "-", which is not always checked: Rules may do it, by [CheckGroup].
package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/spelling"
)

// Apply applies each "key=value" of --set to the configuration that config points to. Keys are the names in the configuration's JSON, with dots
// between levels, e.g. "knn.k=20", or as [Key] shows them. An unknown key or a value of the wrong type is an error that names it.
func Apply(config any, assignments ...string) (err error) {
	defer try.Handle(&err)
	for _, assignment := range assignments {
		try.E(applyOne(config, assignment))
	}
	return nil
}

// Key returns a key as it is shown: names of fields that have none in JSON, such as views.GlobalSize, are views.global_size. [Apply] takes both forms.
func Key(key string) string {
	if !strings.ContainsFunc(key, unicode.IsUpper) {
		return key
	}
	var shown strings.Builder
	for i, c := range key {
		if unicode.IsUpper(c) && i > 0 && unicode.IsLower(rune(key[i-1])) {
			shown.WriteByte('_')
		}
		shown.WriteRune(unicode.ToLower(c))
	}
	return shown.String()
}

// Given reports whether one of the assignments, as [Apply] takes them, is for a key.
func Given(assignments []string, key string) bool {
	return slices.ContainsFunc(assignments, func(assignment string) bool {
		given, _, ok := strings.Cut(assignment, "=")
		return ok && Key(given) == Key(key)
	})
}

// fieldsOf lists the fields of a group and of its embedded structs, with their keys within the group.
func fieldsOf(group reflect.Value) []member {
	return lo.FlatMap(slices.Collect(membersOf("", group)), func(m member, _ int) []member {
		if m.key == "" {
			return fieldsOf(m.value)
		}
		return []member{m}
	})
}

// keysOf lists the keys of a group in alphabetical order.
func keysOf(group reflect.Value) []string {
	keys := lo.Map(fieldsOf(group), func(m member, _ int) string { return Key(m.key) })
	slices.Sort(keys)
	return keys
}

func applyOne(config any, assignment string) (err error) {
	defer try.Handle(&err)
	key, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("--set %q does not have the form key=value", assignment)
	}
	if strings.ContainsFunc(assignment, func(c rune) bool { return !unicode.IsPrint(c) }) {
		assignment = strconv.Quote(assignment) // Errors are one line.
	}
	group, path := reflect.ValueOf(config).Elem(), strings.Split(key, ".")
	for i, name := range path {
		fields := fieldsOf(group)
		at := slices.IndexFunc(fields, func(m member) bool { return Key(m.key) == Key(name) })
		if at < 0 {
			keys := keysOf(group)
			return fmt.Errorf("--set %s: no key %q%s the keys are %s", assignment, name, cmp.Or(spelling.DidYouMean(Key(name), keys), ";"), strings.Join(keys, ", "))
		}
		group = fields[at].value
		switch isGroup, last := group.Kind() == reflect.Struct, i == len(path)-1; {
		case isGroup && last:
			return fmt.Errorf("--set %s: %q is a group; its keys are %s", assignment, fields[at].key, strings.Join(keysOf(group), ", "))
		case !isGroup && !last:
			return fmt.Errorf("--set %s: %q is a single value and has no %q", assignment, fields[at].key, path[i+1])
		}
	}
	old := try.E1(json.Marshal(group.Interface()))
	encoded, isText := []byte(value), old[0] == '"'
	if isText {
		encoded = try.E1(json.Marshal(value))
	}
	changed := reflect.New(group.Type())
	var parts []json.RawMessage // JSON would take another number of them and fill up with zeros.
	whole := group.Kind() != reflect.Array || json.Unmarshal(encoded, &parts) == nil && len(parts) == group.Len()
	if whole && json.Unmarshal(encoded, changed.Interface()) == nil && (isText || value != "null") { // JSON would keep the old value.
		group.Set(changed.Elem())
		return nil
	}
	want := "text"
	switch _, err := strconv.ParseFloat(string(old), 64); {
	case group.Kind() == reflect.Bool:
		want = "true or false"
	case err == nil:
		want = "a number like " + string(old)
	case group.Kind() == reflect.Array:
		want = fmt.Sprintf("%d values like %s", group.Len(), old)
	}
	return fmt.Errorf("--set %s: %q is not %s", assignment, value, want)
}

// Setting is one setting of a configuration.
type Setting struct {
	Key     string // As [Apply] takes it.
	Value   string // As JSON.
	Field   string // The field behind it: import path, type and name, such as "example.com/a/b.Config.Rate".
	Allowed string // What its tag allows, in words; see [Check].
}

// List lists the settings of a configuration, a struct, in the order of its fields. Groups that do not apply, which "omitzero" omits, are left out.
func List(config any) ([]Setting, error) { return list("", reflect.ValueOf(config)) }

// Value returns the value of a setting as JSON, by its key as [Apply] takes it; empty if there is no such setting.
func Value(config any, key string) string {
	all, _ := List(config) // A configuration always encodes.
	found, _ := lo.Find(all, func(s Setting) bool { return s.Key == key })
	return found.Value
}

func list(key string, config reflect.Value) (all []Setting, err error) {
	defer try.Handle(&err)
	for m := range membersOf(key, config) {
		if m.value.Kind() == reflect.Struct {
			all = append(all, try.E1(list(m.key, m.value))...)
			continue
		}
		encoded := try.E1(json.Marshal(m.value.Interface()))
		field := fmt.Sprintf("%s.%s.%s", config.Type().PkgPath(), config.Type().Name(), m.field.Name)
		all = append(all, Setting{Key(m.key), string(encoded), field, allowedBy(m.field.Tag).String()})
	}
	return all, nil
}

// member is a field of a configuration.
type member struct {
	key   string // Its whole key; an embedded struct has the key of the configuration around it.
	field reflect.StructField
	value reflect.Value
}

// membersOf goes through the fields of a struct that are in its JSON and, unlike the JSON, single values that "omitzero" omits. key is that of the struct.
func membersOf(key string, config reflect.Value) iter.Seq[member] {
	return func(yield func(member) bool) {
		for field, value := range config.Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			absent := options == "omitzero" && value.Kind() == reflect.Struct && value.IsZero() // A group that does not apply here.
			if name == "-" || absent || !field.IsExported() && !field.Anonymous {
				continue
			}
			whole := lo.Ternary(field.Anonymous && name == "", key, below(key)+cmp.Or(name, field.Name))
			if !yield(member{whole, field, value}) {
				return
			}
		}
	}
}

// below is the start of the keys of a group.
func below(key string) string { return lo.Ternary(key == "", "", key+".") }

// Changed lists the settings of the second configuration that differ from the first, as "key=value" with the names of the JSON, which records hold. Both
// have one type. The JSON may leave out settings that are zero, but a group that the second leaves out does not apply to it. The key "wiring" is no setting:
// it tells records of a loss from those of an earlier form of it.
func Changed(prefix string, from, to any) (_ []string, err error) {
	defer try.Handle(&err)
	var levels [2]map[string]json.RawMessage
	for i, config := range []any{from, to} {
		encoded := try.E1(json.Marshal(config))
		try.E(json.Unmarshal(encoded, &levels[i]))
	}
	var changed []string
	zeros := map[byte]string{'"': "", '[': "[]", 't': "false"} // By the first byte of other values; a number's is 0.
	for _, key := range slices.Sorted(slices.Values(lo.UniqKeys(levels[0], levels[1]))) {
		old, now := levels[0][key], levels[1][key]
		switch {
		case bytes.Equal(old, now) || key == "wiring" || now == nil && old[0] == '{':
		case now == nil:
			changed = append(changed, prefix+key+"="+lo.ValueOr(zeros, old[0], "0"))
		case now[0] == '{' && len(old) > 0 && old[0] == '{':
			changed = append(changed, try.E1(Changed(prefix+key+".", old, now))...)
		default:
			changed = append(changed, prefix+key+"="+strings.Trim(string(now), `"`))
		}
	}
	return changed, nil
}

// For selects the assignments for one of several kinds of runs. "rate=0.1" is for all kinds; "KIND.rate=0.1" is for one kind alone, which gets it as
// "rate=0.1". keys lists the settings that begin like a kind, such as "cotap.tau1", and are for all.
func For(assignments []string, kind string, kinds []string, keys ...string) (set []string) {
	for _, assignment := range assignments {
		prefix, rest, ok := strings.Cut(assignment, ".")
		key, _, _ := strings.Cut(rest, "=")
		switch {
		case !ok || !slices.Contains(kinds, prefix) || slices.Contains(keys, prefix+"."+key):
			set = append(set, assignment)
		case prefix == kind:
			set = append(set, rest)
		}
	}
	return set
}
