package datasets

// Size is the height and width of an image in pixels, each at least 1. Images of different sizes share a batch by padding at the right and
// at the bottom.
type Size struct{ Height, Width int }
