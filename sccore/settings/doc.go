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
// A range of a list or a map is that of its elements. Check leaves out a group of range "-", which is not always checked: Rules may do it, by [CheckGroup].
package settings
