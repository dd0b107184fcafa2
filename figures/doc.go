// Package figures turns numbers into tables and pictures. Plain numbers go in: what was measured, one value per seed, and what the paper prints.
// Tables come out as text, pictures as SVG, PNG and PDF. The paper's own numbers are data here (paper/*.csv, read by [Paper]), so that each table shows
// them beside ours. A number that nobody measured is an empty cell.
//
//   - grid.go: [Grid] is formatted text in cells, and writes itself as text, Markdown, HTML and LaTeX. [Table], [Scoreboard] and [BoundTable] are grids.
//   - chart.go: a chart is panels side by side. [Curves] and [Heatmap] are charts.
//   - plane.go: [Heatmap] and [Embedding] show numbers and points over the plane.
//   - layouts.go: [ImageGrid], [Matches] and [Schematic] place images, which images.go paints.
//   - theory.go: [BoundCurves], [BoundHeatmaps], [Feasibility], [TailCurves] and [BoundTable] show what the theorem of implicit semantic concentration says.
//
// Each [Figure] is one function that lays it out with its numbers. A new plot is such a function over a chart; fonts, colours and markers come from style.go.
package figures
