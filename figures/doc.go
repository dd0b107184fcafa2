// Package figures turns numbers into tables and pictures. Plain numbers go in: what was measured, one value a seed, and what the paper prints;
// tables come out as text, pictures as SVG and PNG. The paper's own numbers are data here (paper/*.csv, read by [Paper]), so that each table
// shows them beside ours. A number nobody measured stays an empty cell.
//
//   - table*.go: [Table] is written as Markdown, HTML, LaTeX or CSV.
//   - scoreboard.go, claims.go: [Scoreboard] sets the paper's claims beside what runs say about them.
//   - plot_*.go: [Curves], [CurvesRow], [Map], [Ladder], [Gains], [TradeOff], [CropDrop] and [Richness] are plots.
//   - image_*.go: [ImageGrid], [ClassMap] and [Heat] are pictures of images.
//   - theory_*.go: [BoundCurves], [BoundMaps], [Feasibility], [TailFigure] and [Accounts] show what the theorem of implicit semantic
//     concentration says.
//
// Each [Figure] renders to SVG and PNG, and [SaveFigure] keeps both with their numbers. The next plot gets a file plot_NAME.go; fonts, colours and
// markers come from style.go and seedmarks.go.
package figures
