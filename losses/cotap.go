package losses

import "fmt"

// CoTAP is the differentiable continuous-target AP loss (the display after eq. sur_loss): the mean over patch pairs i of
//
//	γ̃_i g(ψ_i Σ_{q_j < q_i} ℓ(p_i − p_j)),   1/ψ_i = #{j: q_j ≥ q_i, p_j ≥ p_i},   γ̃_i = max(q_i − Tau1, 0),   g(x) = x/(1+x)
//
// with the one-sided Huber loss ℓ of margin Tau2, see [OneSidedHuber]. p_i are the online branch's scores of the pairs, and q_i the target
// branch's. Ties count as the formula says: pairs of equal q are no negatives of one another, and pairs of equal p are in ψ.
//
// The gradient goes through ℓ alone: ψ and γ̃ are weights and q is the target, so all three are constants. It is zero where each pair
// outranks all pairs of lower q by Tau2.
type CoTAP struct {
	Tau1 float64 `json:"tau1"` // From −10⁴ to 1: pairs with q ≤ Tau1 have no weight.
	Tau2 float64 `json:"tau2"` // From 10⁻⁴ to 10⁴: the margin by which a pair should outrank those of lower q.
}

// The hyper-parameters' limits. A smaller margin is none between scores in [0, 1]: the sums of 1, p and p² that the fast forms take their
// differences of are divided by Tau2², so errors grow with its inverse: in float64 the gradient's is up to 4·10⁻⁸ of the largest entry here.
// Above, all pairs are within the margin and all weights are equal to four digits; far above, squares overflow.
const leastMargin, limit = 1e-4, 1e4

// DefaultCoTAP has the paper's hyper-parameters ("Optimization strategy").
func DefaultCoTAP() CoTAP { return CoTAP{Tau1: -0.2, Tau2: 0.5} }

// Check returns an error that names the first hyper-parameter out of range.
func (c CoTAP) Check() error {
	if !(c.Tau1 >= -limit && c.Tau1 <= 1) {
		return fmt.Errorf("tau1 %v is not in [%v, 1]", c.Tau1, -limit)
	}
	if !(c.Tau2 >= leastMargin && c.Tau2 <= limit) {
		return fmt.Errorf("tau2 %v is not in [%v, %v]", c.Tau2, leastMargin, limit)
	}
	return nil
}
