package train

import (
	"context"
	"fmt"
)

// Evaluator measures what training has learnt so far: the k-NN accuracy of the features, say. It must leave the variables as they are, so that
// a run is the same with it and without.
type Evaluator struct {
	Name  string
	Every int // Steps between two evaluations; the last step is evaluated, too. 0 for none at all.
	// Evaluate returns what it measures by name. ctx ends with the run's.
	Evaluate func(ctx context.Context) (map[string]float64, error)
}

// due tells whether the evaluator runs after this many steps of a run.
func (e Evaluator) due(done, steps int) bool {
	return e.Every > 0 && (done%e.Every == 0 || done == steps)
}

// evaluate runs the evaluators that are due. The values are under "evaluator/value", nil where none was due.
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
