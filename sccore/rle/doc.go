// Package rle holds binary masks as COCO does: as the lengths of runs of pixels outside and inside, column by column. Pixels ([Encode]), polygons
// ([FromPolygons]), boxes ([FromBox]), runs ([FromCounts]) and COCO's compressed text ([Parse]) go in. Pixels, text, areas, boxes, unions,
// intersections and intersections over unions come out, equal to those of pycocotools.
//
// It imports nothing of the project: package datasets reads annotations with it, and package metrics judges masks.
package rle
