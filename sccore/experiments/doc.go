// Package experiments lists the experiments of the paper.
//
// Each experiment has a folder below: its configuration, cells and profiles (study.go), the worker that runs a cell (worker.go), and its tables and
// pictures (table.go, pictures.go). Package study runs them. In go the records of all experiments; out come the experiments by name and the scoreboard
// of the paper's claims. A new experiment is a new folder and a line in [All].
package experiments
