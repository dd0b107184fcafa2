// Package study is the engine of experiments: cells × seeds, the queue, the lock, resuming, records, and what tables are made of, written once.
//
// In goes a [Spec], which says what is an experiment's own: its cells, its data, its worker, its tables and the quantities of its claims. Out come
// records, one JSON line a number in out/EXPERIMENT/runs.jsonl, and [Results], records of one profile grouped for tables. An experiment is a folder
// below sccore/experiments; the next one starts there with a Spec and is listed in package experiments.
package study
