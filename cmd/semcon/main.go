// Command semcon sets the project up, opens its notebooks, runs its experiments and prints their tables.
package main

func main() {}
