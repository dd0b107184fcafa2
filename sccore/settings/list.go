package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Setting is one setting of a configuration.
type Setting struct {
	Key   string // As [Apply] takes it.
	Value string // As JSON.
	Field string // The field behind it: import path, type and name, such as "example.com/a/b.Config.Rate".
}

// List lists the settings of a configuration, a struct, in the order of its fields. Groups that do not apply, which "omitzero" omits, are left out, as in
// [Numbers].
func List(config any) ([]Setting, error) { return list("", reflect.ValueOf(config)) }

func list(prefix string, config reflect.Value) (all []Setting, err error) {
	for i := range config.NumField() {
		field, value := config.Type().Field(i), config.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		absent := value.Kind() == reflect.Struct && value.IsZero() && options == "omitzero"
		if name == "-" || absent || !field.IsExported() && !field.Anonymous {
			continue
		}
		key := prefix + cmp.Or(name, field.Name)
		if field.Anonymous && name == "" {
			key = strings.TrimSuffix(prefix, ".")
		}
		if value.Kind() == reflect.Struct {
			if key != "" {
				key += "."
			}
			nested, err := list(key, value)
			if err != nil {
				return nil, err
			}
			all = append(all, nested...)
			continue
		}
		encoded, err := json.Marshal(value.Interface())
		if err != nil {
			return nil, err
		}
		all = append(all, Setting{key, string(encoded), fmt.Sprintf("%s.%s.%s", config.Type().PkgPath(), config.Type().Name(), field.Name)})
	}
	return all, nil
}
