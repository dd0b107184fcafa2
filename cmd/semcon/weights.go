package main

import (
	"fmt"
	"os"

	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/weights/hub"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// downloads draws bars of files that come from the Hub.
var downloads = hub.Watch{
	Bar: func(title string, total int) progress.Bar { return progress.New(os.Stderr, title, total) },
	Say: func(line string) { fmt.Fprintln(os.Stderr, line) },
}

// locate returns the file of weights that a name means, which may be a file, a folder, or a repository of the Hugging Face Hub.
func locate(c *cobra.Command, name string) (string, error) {
	return hub.Locate(c.Context(), name, downloads)
}

// locateWeights puts paths in the place of names in the flags of a verb that take weights. A job that is only submitted finds them where it runs.
func locateWeights(c *cobra.Command) (err error) {
	if c.Name() == "submit" {
		return nil
	}
	for _, name := range []string{"weights", "init"} {
		if f := c.Flags().Lookup(name); f != nil && f.Value.String() != "" {
			path, err := locate(c, f.Value.String())
			if err != nil {
				return fmt.Errorf("--%s %w", name, err)
			}
			check(f.Value.Set(path))
		}
	}
	f := c.Flags().Lookup("set")
	if f == nil {
		return nil
	}
	settings := f.Value.(pflag.SliceValue)
	located, err := hub.Settings(c.Context(), settings.GetSlice(), downloads)
	if err != nil || len(located) == 0 {
		return err
	}
	return settings.Replace(located)
}

// printPublished prints where published weights are, and what was tried of them.
func printPublished() {
	for _, p := range hub.Published() {
		fmt.Printf("%s, %s\n  %s\n  read: %s\n", p.Model, p.Encoder, p.Where, p.Evidence())
	}
	fmt.Println("\nNames OWNER/NAME and hf://… are taken wherever weights are. Download the other addresses by hand, and give the file.")
}
