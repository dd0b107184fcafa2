package datasets

// Size is the size of an image in pixels, both at least 1. Images of several extents share a batch when each lies in the top left
// corner of its place there.
type Size struct{ Height, Width int }
