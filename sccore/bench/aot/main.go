package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/settings"
)

func main() {
	out := flag.String("o", "step.mlir", "")
	plugin := flag.String("plugin", "", "")
	flag.Parse()
	config := sccore.Default()
	config.BF16 = true
	if err := settings.Apply(&config, flag.Args()...); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(dump(config, *plugin, *out))
	os.Exit(1)
}
