// Package tsne embeds feature vectors in the plane by exact t-SNE, for the paper's figure of patches (Fig. vis_tsne). Vectors go in
// ([Affinities]), points whose neighbours are the vectors' neighbours come out ([Options.Embed]).
//
// Another reduction to the plane gets a package of its own beside this one.
package tsne
