// Package settings changes configurations by name, as --set does, and lists how two configurations differ.
//
// In go a configuration, which is a struct with JSON names, and assignments such as "knn.k=20". Out comes the changed configuration, or an error that
// names the key, the value and the alternatives. A new kind of setting is a new case in Apply.
package settings
