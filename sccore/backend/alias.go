package backend

import (
	"reflect"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/stablehlo"
)

// Alias lets a result of a program take the memory of a parameter, an old value that the caller gives away. Without it XLA allocates the result anew
// and copies. On backends that manage their own memory it does nothing. It reports whether it did something.
//
// PJRT reads the pairs from an attribute of the parameter, which go-xla can write but does not let callers set; hence the reflection.
func Alias(parameter compute.Value, result int) bool {
	node := reflect.ValueOf(parameter)
	if node.Kind() != reflect.Pointer || node.Elem().Kind() != reflect.Struct {
		return false
	}
	field := node.Elem().FieldByName("value")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*stablehlo.Value]() {
		return false
	}
	value := (*stablehlo.Value)(field.UnsafePointer())
	if value.Attributes == nil {
		value.Attributes = map[string]any{}
	}
	value.Attributes["tf.aliasing_output"] = int32(result)
	return true
}
