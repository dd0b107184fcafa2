package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/weights/hub"
	"github.com/spf13/cobra"
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

// locateFlag puts the path of the weights that a flag names in the place of the name.
func locateFlag(c *cobra.Command, flag string, name *string) error {
	path, err := locate(c, *name)
	if err != nil {
		return fmt.Errorf("--%s %w", flag, err)
	}
	*name = path
	return requireReadableFile(flag, path)
}

// locateSettings puts paths in the place of names of weights in settings. Verbs that only read records take what the cache has.
func locateSettings(c *cobra.Command, set *[]string) (err error) {
	watch := downloads
	watch.Cached = !slices.Contains([]string{"run", "submit"}, c.Name())
	if *set, err = hub.Settings(c.Context(), *set, watch); err != nil && c.Context().Err() == nil {
		return usagef("%v", err) // The setting names what cannot be had.
	}
	return err
}

// printPublished prints where published weights are, and what was tried of them.
func printPublished(format string) error {
	text := ""
	for _, p := range hub.Published() {
		text += fmt.Sprintf("%s, %s\n  %s\n  read: %s\n", p.Model, p.Encoder, p.Where, p.Evidence())
	}
	text += "\nNames OWNER/NAME and hf://… are taken wherever weights are. Download the other addresses by hand, and give the file.\n"
	return printAs(format, text, hub.Published())
}
