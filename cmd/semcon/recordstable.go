package main

import (
	"encoding/csv"
	"os"

	"github.com/janpfeifer/must"
	"github.com/parquet-go/parquet-go"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

func recordsVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "records [EXPERIMENT…]", Short: "write all records as one table with a line for each number, for pandas, polars or DuckDB",
		Example: "semcon records > records.csv\nsemcon records --format parquet > records.parquet\nsemcon records pretrain transfer --format json",
	}
	completeExperiments(c)
	out := c.Flags().String("out", "out", "`FOLDER` of the records")
	format := choiceFlag(c, "format", "`FORMAT`: csv, json or parquet", "csv", "json", "parquet")
	c.RunE = func(c *cobra.Command, names []string) error {
		if *format == "parquet" && progress.IsTerminal(os.Stdout) {
			return usagef("--format parquet: not for a terminal; add > records.parquet")
		}
		if c.Flags().Changed("out") {
			must.M(requireFolder("out", *out))
		}
		all := []study.Quantity{}
		for _, e := range must.M1(inOrder(names)) {
			all = append(all, study.Quantities(must.M1(study.Records(study.Folder(*out, e.Name))))...)
		}
		switch *format {
		case "json":
			return printAs("json", "", all)
		case "parquet":
			return parquet.Write(os.Stdout, all)
		}
		w := csv.NewWriter(os.Stdout)
		w.Write(study.QuantityNames())
		for _, q := range all {
			w.Write(q.Texts())
		}
		w.Flush()
		return w.Error()
	}
	return c
}
