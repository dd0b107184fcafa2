package study

import "github.com/semcon/semcon/sccore"

// ErrDiverged TEMP
var ErrDiverged = sccore.ErrDiverged
