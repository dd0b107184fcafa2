package study

import "github.com/semcon/semcon/sccore"

// ErrDiverged is the error of a run whose loss became NaN or infinite.
var ErrDiverged = sccore.ErrDiverged
