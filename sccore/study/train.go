package study

import (
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/train"
)

// ErrDiverged is the error of a run whose loss became NaN or infinite. It does not stop the other runs.
var ErrDiverged = train.ErrDiverged

// Train completes a training, from its last checkpoint if there is one. It fills in the fields of the loop that depend on the run: the folder, unless
// it is set, the time between checkpoints, and the functions that report progress.
func Train[M any, C comparable, D Data](r *Run[C, D], loop *train.Loop[M]) error {
	if loop.Dir == "" {
		loop.Dir = r.Dir
	}
	loop.Every = r.Options().CheckpointEvery
	resumed := loop.Resumed
	loop.Resumed = func(done int) {
		r.Resumed(done)
		if resumed != nil {
			resumed(done)
		}
	}
	loop.Saved = r.saveSeconds
	loop.Damaged = func(file string, err error) {
		r.Warnf("%s resumes from an older checkpoint: %v; the damaged file is kept as %s", r.Cell.Name(), err, file)
	}
	loop.Phase = func(phase train.Phase) {
		r.Phase(map[train.Phase]string{
			train.Compiling: progress.Compiling, train.Training: progress.Training, train.Evaluating: progress.Measuring,
		}[phase])
	}
	if trainer, ok := loop.Trainer.(measured); ok {
		before, gpu, devices := trainer.Usage(), gpuModel(), backend.Devices(r.Backend())
		r.efficiency = func() Efficiency {
			return efficiencyOf(trainer.Usage().Since(before), trainer.Workload(), gpu, devices)
		}
		defer func() {
			last := r.efficiency()
			r.efficiency = func() Efficiency { return last }
		}()
	}
	defer r.Phase(progress.Measuring)
	return loop.Run(r.Context)
}
