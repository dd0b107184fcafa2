// Package figures turns numbers into tables and pictures. Plain numbers go in: what was measured, one value per seed, and what the paper prints.
// Tables come out as text, pictures as SVG and PNG. The paper's own numbers are data here (paper/*.csv, read by [Paper]), so that each table shows
// them beside ours. A number that nobody measured is an empty cell.
//
//   - table*.go: [Table] is written as Markdown, HTML, LaTeX or CSV.
//   - scoreboard.go, claims.go: [Scoreboard] shows the paper's claims beside what runs say about them.
//   - plot_*.go: [Curves], [CurvesRow], [Heatmap], [DotPlot], [GainPlot], [TradeOff], [AccuracyDrop], [AugmentationCurves] and [Embedding]
//     are plots.
//   - image_*.go: [ImageGrid], [Matches], [ClassMap] and [HeatImage] are images.
//   - theory_*.go: [BoundCurves], [BoundHeatmaps], [Feasibility], [TailCurves] and [BoundTable] show what the theorem of implicit semantic
//     concentration says.
//
// Each [Figure] renders to SVG and PNG, and [SaveFigure] writes both with their numbers; [SaveAs] writes PDFs, too. The next plot gets a file plot_NAME.go; fonts, colours and
// markers come from style.go and seedmarks.go.
package figures
