package theory

// Account sets all that is said of the error of one set of features side by side.
type Account struct {
	// Curves are the tails, PrintedAt and RepairedAt those at which each theorem says most.
	Curves                TailCurves
	PrintedAt, RepairedAt Tails
	Printed               Printed
	Repaired              Repaired
	Moments               MomentBound
	// Error is the truth.
	Error float64
	// Omega is [Features.CorrelationPeak].
	Omega float64
}

// Account measures features, with thresholds tried on a grid of [Features.Thresholds] of that fineness.
func (f *Features) Account(thresholds int) (Account, error) {
	curves, err := f.TailCurves(f.Thresholds(thresholds))
	if err != nil {
		return Account{}, err
	}
	a := Account{Curves: curves, Moments: f.MomentBound(), Error: f.Error(), Omega: f.CorrelationPeak()}
	setting := f.Setting()
	a.PrintedAt, _ = curves.Best(func(t Tails) Bound { return setting.Printed(t).Bound })
	a.RepairedAt, _ = curves.Best(func(t Tails) Bound { return setting.Repaired(t, a.Omega).Bound })
	a.Printed, a.Repaired = setting.Printed(a.PrintedAt), setting.Repaired(a.RepairedAt, a.Omega)
	return a, nil
}
