package train

import (
	"context"
	"fmt"
)

// Evaluator measures what training has learnt so far, such as the k-NN accuracy of the features. It must leave the variables as they are, so that a
// run is the same with and without it.
type Evaluator struct {
	Name  string
	Every int // Steps between two evaluations; the last step is evaluated too. 0 turns the evaluator off.
	// Evaluate returns values by name. ctx ends when the run is stopped.
	Evaluate func(ctx context.Context) (map[string]float64, error)
}

// due reports whether the evaluator runs after this many steps of a run.
func (e Evaluator) due(done, steps int) bool {
	return e.Every > 0 && (done%e.Every == 0 || done == steps)
}

// evaluate runs the evaluators that are due. It names values "evaluator/value" and returns nil if none was due.
func (l *Loop[M]) evaluate(ctx context.Context) (values map[string]float64, err error) {
	done, steps := l.Trainer.Done(), l.Trainer.Steps()
	for _, evaluator := range l.Evaluators {
		if !evaluator.due(done, steps) {
			continue
		}
		l.enter(Evaluating)
		measured, err := evaluator.Evaluate(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s after step %d: %w", evaluator.Name, done, err)
		}
		if values == nil {
			values = map[string]float64{}
		}
		for name, value := range measured {
			values[evaluator.Name+"/"+name] = value
		}
	}
	return values, nil
}
