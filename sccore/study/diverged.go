package study

import "github.com/semcon/semcon/sccore/train"

// ErrDiverged is the error of a run whose loss became NaN or infinite.
var ErrDiverged = train.ErrDiverged
