package hub

import (
	_ "embed"
	"encoding/csv"
	"strings"
)

//go:embed published.csv
var publishedFile string

// Checkpoint is a published file of weights of a method in the paper's tables, or of a successor.
type Checkpoint struct {
	Model   string `json:"model"`
	Encoder string `json:"encoder"`
	Where   string `json:"where"` // What [Locate] takes, or the address of a file or a page to download from by hand.
	Tried   string `json:"tried"` // What of it was read by this program: "layout" or "assumed".
}

// tried says in words what was tried of a checkpoint.
var tried = map[string]string{
	"layout":  "its layout of keys, with random weights; not the file",
	"assumed": "nothing: its layout is assumed to be Leopart's",
}

// Evidence says in words what of the checkpoint was read by this program.
func (c Checkpoint) Evidence() string { return tried[c.Tried] }

// Published lists published checkpoints, as published.csv does.
func Published() (all []Checkpoint) {
	rows, err := csv.NewReader(strings.NewReader(publishedFile)).ReadAll()
	if err != nil {
		panic(err) // The file is part of the program, and its test reads it.
	}
	for _, row := range rows[1:] {
		all = append(all, Checkpoint{row[0], row[1], row[2], row[3]})
	}
	return all
}
