package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Apply applies each "key=value" of --set to the configuration that config points to. Keys are the names in the configuration's JSON, with dots
// between levels, e.g. "knn.k=20", or as [Key] shows them. An unknown key or a value of the wrong type is an error that names it.
func Apply(config any, assignments ...string) error {
	for _, assignment := range assignments {
		if err := applyOne(config, assignment); err != nil {
			return err
		}
	}
	return nil
}

// Key returns a key as it is shown: names of fields that have none in JSON, such as views.GlobalSize, are views.global_size. [Apply] takes both forms.
func Key(key string) string {
	var shown strings.Builder
	for i, c := range key {
		if unicode.IsUpper(c) && i > 0 && unicode.IsLower(rune(key[i-1])) {
			shown.WriteByte('_')
		}
		shown.WriteRune(unicode.ToLower(c))
	}
	return shown.String()
}

// Given reports whether assignments, as those of [Apply], have one of a key.
func Given(assignments []string, key string) bool {
	return slices.ContainsFunc(assignments, func(assignment string) bool {
		given, _, ok := strings.Cut(assignment, "=")
		return ok && Key(given) == Key(key)
	})
}

// named returns the entry of a level whose key is shown as the given one.
func named(level map[string]any, name string) (key string, value any, ok bool) {
	for key, value := range level {
		if Key(key) == Key(name) {
			return key, value, true
		}
	}
	return name, nil, false
}

// keysOf lists the keys of a level, with commas between them.
func keysOf(level map[string]any) string {
	var keys []string
	for key := range level {
		keys = append(keys, Key(key))
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

func applyOne(config any, assignment string) error {
	key, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("--set %q does not have the form key=value", assignment)
	}
	if strings.ContainsFunc(assignment, func(c rune) bool { return !unicode.IsPrint(c) }) {
		assignment = strconv.Quote(assignment) // Errors are one line.
	}
	root, err := settingsOf(reflect.ValueOf(config).Elem())
	if err != nil {
		return err
	}
	level, path := root, strings.Split(key, ".")
	for i, name := range path {
		name, old, ok := named(level, name)
		if !ok {
			return fmt.Errorf("--set %s: no key %q; the keys are %s", assignment, name, keysOf(level))
		}
		nested, isMap := old.(map[string]any)
		if i < len(path)-1 {
			if !isMap {
				return fmt.Errorf("--set %s: %q is a single value and has no %q", assignment, name, path[i+1])
			}
			level = nested
			continue
		}
		if isMap {
			return fmt.Errorf("--set %s: %q is a group; its keys are %s", assignment, name, keysOf(nested))
		}
		if _, isText := old.(string); isText {
			level[name] = value
		} else if value == "null" { // JSON would keep the old value.
			return wrongType(assignment, value, old)
		} else if level[name] = json.RawMessage(value); !json.Valid([]byte(value)) {
			return wrongType(assignment, value, old)
		}
		changed, err := json.Marshal(root)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(changed, config); err != nil {
			return wrongType(assignment, value, old)
		}
	}
	return nil
}

// Setting is one setting of a configuration.
type Setting struct {
	Key     string // As [Apply] takes it.
	Value   string // As JSON.
	Field   string // The field behind it: import path, type and name, such as "example.com/a/b.Config.Rate".
	Allowed string // What its tag allows, in words; see [Check].
}

// List lists the settings of a configuration, a struct, in the order of its fields. Groups that do not apply, which "omitzero" omits, are left out.
func List(config any) ([]Setting, error) {
	all, err := list("", reflect.ValueOf(config))
	for i := range all {
		all[i].Key = Key(all[i].Key)
	}
	return all, err
}

func list(key string, config reflect.Value) (all []Setting, err error) {
	for _, m := range membersOf(key, config) {
		if m.value.Kind() == reflect.Struct {
			nested, err := list(m.key, m.value)
			if err != nil {
				return nil, err
			}
			all = append(all, nested...)
			continue
		}
		encoded, err := json.Marshal(m.value.Interface())
		if err != nil {
			return nil, err
		}
		field := fmt.Sprintf("%s.%s.%s", config.Type().PkgPath(), config.Type().Name(), m.field.Name)
		all = append(all, Setting{m.key, string(encoded), field, allowedBy(m.field.Tag).String()})
	}
	return all, nil
}

// member is a field of a configuration.
type member struct {
	key   string // Its whole key; that of the configuration for an embedded struct.
	field reflect.StructField
	value reflect.Value
}

// membersOf lists the fields of a struct that are in its JSON and, unlike the JSON, single values that "omitzero" omits. key is that of the struct.
func membersOf(key string, config reflect.Value) (all []member) {
	for i := range config.NumField() {
		field, value := config.Type().Field(i), config.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		absent := value.Kind() == reflect.Struct && value.IsZero() && options == "omitzero" // A group that does not apply here.
		switch {
		case name == "-" || absent || !field.IsExported() && !field.Anonymous:
		case field.Anonymous && name == "":
			all = append(all, member{key, field, value})
		default:
			all = append(all, member{below(key) + cmp.Or(name, field.Name), field, value})
		}
	}
	return all
}

// below is the start of the keys of a group.
func below(key string) string {
	if key == "" {
		return ""
	}
	return key + "."
}

// settingsOf returns a configuration as nested maps with the names of its JSON.
func settingsOf(config reflect.Value) (map[string]any, error) {
	settings := map[string]any{}
	listed, err := list("", config)
	for _, s := range listed {
		level, path := settings, strings.Split(s.Key, ".")
		for _, name := range path[:len(path)-1] {
			if level[name] == nil {
				level[name] = map[string]any{}
			}
			level = level[name].(map[string]any)
		}
		decoder := json.NewDecoder(strings.NewReader(s.Value))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		level[path[len(path)-1]] = value
	}
	return settings, err
}

// Changed lists the settings of the second configuration that differ from the first, as "key=value" with the names of the JSON, which records hold. Both
// have one type.
func Changed(prefix string, from, to any) ([]string, error) {
	var levels [2]map[string]json.RawMessage
	for i, config := range []any{from, to} {
		encoded, err := json.Marshal(config)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(encoded, &levels[i]); err != nil {
			return nil, err
		}
	}
	var changed []string
	for _, key := range slices.Sorted(maps.Keys(levels[1])) {
		old, now := levels[0][key], levels[1][key]
		switch {
		case bytes.Equal(old, now):
		case now[0] == '{' && len(old) > 0 && old[0] == '{':
			inner, err := Changed(prefix+key+".", old, now)
			if err != nil {
				return nil, err
			}
			changed = append(changed, inner...)
		default:
			changed = append(changed, prefix+key+"="+strings.Trim(string(now), `"`))
		}
	}
	return changed, nil
}

func wrongType(assignment, value string, old any) error {
	want := "text"
	switch number := old.(type) {
	case bool:
		want = "true or false"
	case json.Number:
		want = "a number like " + number.String()
	}
	return fmt.Errorf("--set %s: %q is not %s", assignment, value, want)
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
