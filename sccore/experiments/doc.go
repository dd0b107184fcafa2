// Package experiments lists the experiments of the paper.
//
// Each is a folder below: its configuration, cells and profiles (study.go), what runs a cell (worker.go), and its tables and pictures (table.go,
// pictures.go), on the engine in package study. In goes nothing but their list; out come the experiments by name and the scoreboard of the paper's
// claims. A new experiment is a new folder and a line in [All].
package experiments
