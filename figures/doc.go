// Package figures turns numbers into tables and pictures.
//
// It takes plain numbers: what was measured, one value a seed, and what the paper prints. The paper's own numbers are data here
// (paper/*.csv, read by [Paper]), so that each table shows them beside ours. A number nobody measured stays an empty cell.
//
//   - [Table] is written as Markdown, HTML, LaTeX or CSV.
//   - [Scoreboard] sets the paper's claims beside what runs say about them.
//   - [Curves], [CurvesRow], [CropDrop], [Richness], [ImageGrid], [Map] and [Ladder] are figures: each renders to SVG and PNG, and [SaveFigure] keeps both with
//     their numbers.
//   - [BoundCurves], [BoundMaps], [Feasibility], [TailFigure] and [Accounts] show what the theorem of implicit semantic concentration says.
package figures
