// Package teacherquality studies how the gain of patch concentration depends on the quality of the teacher's correspondences.
//
// The paper's teacher has one quality: it is a transformer pretrained on ImageNet. A teacher that trains here in a minute is worse, and whether L_sc
// still helps depends on how much worse. Each seed has one checkpoint, trained by alignment alone. From it, training continues in several ways: with
// patch alignment alone, or with CoTAP or binary cross-entropy added. Their q is the real teacher's, or comes from labels of which a share is replaced by
// noise. The noise sets how well q separates pairs of one class from other pairs, measured as AUC, the area under the ROC curve.
package teacherquality
