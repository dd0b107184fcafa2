// Package synthetic draws images, scenes and videos of textured objects, so that everything runs without a download: a number, a size and a
// seed go in, and the types of package datasets come out, with masks of classes, instances and parts where they are known. The same
// arguments give the same bytes. All of it is called "synthetic", so that nobody takes it for real data.
//
// [Images] are of one object each, of eight classes; [Scenes], [Objects], [Segmentation] and [Videos] share six classes of two parts. The next
// kind of drawn data gets a file here and is made of the scenes and objects in object.go.
package synthetic
