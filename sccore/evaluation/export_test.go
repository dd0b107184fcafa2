package evaluation

// Bilinear is bilinear, for tests.
var Bilinear = bilinear
