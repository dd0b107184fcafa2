// Package theory is the paper's theory of implicit semantic concentration as an instrument.
//
// It starts from [Features]: n images of each of K classes, m views of each, as vectors of length r. From them come the
// similarity curves behind p_T and q_T ([Features.TailCurves]), the terms Δ of lemma sum_delta ([Features.Deltas]), the nearest-mean
// classifier whose error the theorem bounds ([Features.Error]), the printed theorem ([Printed]), the repaired one ([Repaired]) and its
// form in measured moments ([Features.MomentBound]). [OP1] is the paper's toy problem and [OP1.Solve] its solver; [Features.Lemmas] holds
// each lemma against a set of features. The proofs are in docs/theory.md.
//
// All of it is exact arithmetic in float64 on the host: no sampling, and no matrix of all pairs is ever held. The next theorem or lemma gets
// a file here and a loop over its definition in reference_test.go.
package theory
