// Package noisetolerance is the study behind claim C25. It measures how much worse a student ranks patch correspondences if a share of its pseudo labels
// is flipped, trained with CoTAP or with binary cross-entropy.
//
// The paper has no table of it, so the setting is ours, and small. A patch belongs to one of a few classes; its features are the direction of its class
// plus noise. The student maps features linearly. It trains on pairs of images to give patch pairs of one class a higher correspondence than other
// pairs. Its pseudo labels imitate a teacher's scores: high for pairs of one class, low for others, with noise. A flipped label is a score drawn for the
// wrong kind of pair.
package noisetolerance
