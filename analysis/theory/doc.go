// Package theory makes the paper's theory of implicit semantic concentration computable.
//
// It starts from [Features]: n images of each of K classes, m views of each, as vectors of length r. From these it computes the similarity curves
// behind p_T and q_T ([Features.TailCurves]), the terms Δ of lemma sum_delta ([Features.Deltas]), the nearest-mean classifier whose error the theorem
// bounds ([Features.Error]), the printed theorem ([Printed]), the repaired one ([Repaired]) and its form in measured moments
// ([Features.MomentBound]); [Features.Compare] sets them side by side. [OP1] is the paper's toy problem and [OP1.Solve] its solver; [Features.Lemmas]
// tests each lemma on a set of features. The proofs are in docs/theory.md.
//
// Everything is computed in float64 on the host, without sampling and without a matrix of all pairs. The next theorem or lemma gets a file here and a
// loop over its definition in reference_test.go.
package theory
