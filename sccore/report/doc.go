// Package report makes pages from records: all results of a profile in one page, and two runs compared.
//
// In goes a folder of records, out/EXPERIMENT/runs.jsonl, with the curves and models that they name. Out comes an HTML file that asks nothing of the network: tables and
// figures as the experiments make them, the paper's claims, what stands behind the numbers, and what is missing. [Write] makes the report of a profile and [Print] a
// PDF of it. [Compare] compares two runs. What an experiment shows is its own: a new table or figure goes there.
package report
