// Package settings changes configurations by name, as --set does, and tells how two of them differ.
//
// In goes a configuration, a struct with JSON names, and assignments such as "knn.k=20"; out comes the changed configuration, or an error that names the
// key, the value and what there is. A new kind of setting is a case of Apply.
package settings
