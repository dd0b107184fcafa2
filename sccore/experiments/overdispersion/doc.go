// Package overdispersion is the experiment of Fig. over-disp: does aligning patches alone disperse their features as training goes on, and does
// concentration prevent it?
//
// In go synthetic scenes and the two lines of the ablation that differ in patch concentration alone, both from one encoder. Out come records of how dense
// and image quality change along training, with curves, a table, the figure and claim C19.
package overdispersion
