// Package study runs experiments: cells × seeds, the queue, locks, resuming, records and the results that tables show, written once for all.
//
// In goes a [Spec], which holds what is specific to an experiment: its cells, its data, its worker, its tables and the quantities of its claims. Out
// come records, one JSON line per number in out/EXPERIMENT/runs.jsonl, and [Results], the records of one profile grouped for tables. Each experiment
// has a folder below sccore/experiments. A new one starts there with a Spec and joins the list in package experiments.
package study
