// Package losses holds the objectives as pure functions of graph nodes: scores, features or logits go in, a scalar comes out. One loss per file, no
// Scope, no Store.
//
// Every loss is a scalar of its inputs' dtype, a mean over the batch unless its comment says otherwise, and differentiable in the inputs that its
// comment names. Inputs of the wrong rank or of different shapes panic while the graph is built, as in GoMLX's own operations.
//
// CoTAP can be compared with others: [BCE], [FastAP] and [SmoothAP] take the same scores of patch pairs, and [GramAnchoring], [PaKA] and [NeCo] take the
// patch features of a student and a teacher.
//
// The ranking losses also have forms in plain Go and float64, for analysis without a device: [AP], [CoTAPDefinition], [CoTAPBound] and
// [CoTAP.Evaluate]. Those return errors.
//
// A new objective gets a file here, named for it, a float64 reference in the tests and a case in testdata.
package losses
