package theory

// Comparison sets every bound on the error of one set of features beside the error itself.
type Comparison struct {
	// Curves are the tails; PrintedAt and RepairedAt are the tails at which each theorem says most.
	Curves                TailCurves
	PrintedAt, RepairedAt Tails
	Printed               Printed
	Repaired              Repaired
	Moments               MomentBound
	// Error is the true error.
	Error float64
	// Omega is [Features.CorrelationPeak].
	Omega float64
}

// Compare measures features. It tries the thresholds of a grid, [Features.Thresholds] with count thresholds.
func (f *Features) Compare(thresholds int) (Comparison, error) {
	curves, err := f.TailCurves(f.Thresholds(thresholds))
	if err != nil {
		return Comparison{}, err
	}
	a := Comparison{Curves: curves, Moments: f.MomentBound(), Error: f.Error(), Omega: f.CorrelationPeak()}
	setting := f.Setting()
	a.PrintedAt, _ = curves.Best(func(t Tails) Bound { return setting.Printed(t).Bound })
	a.RepairedAt, _ = curves.Best(func(t Tails) Bound { return setting.Repaired(t, a.Omega).Bound })
	a.Printed, a.Repaired = setting.Printed(a.PrintedAt), setting.Repaired(a.RepairedAt, a.Omega)
	return a, nil
}
