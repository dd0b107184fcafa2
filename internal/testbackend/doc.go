// Package testbackend runs a test on every backend of the machine: the pure-Go engine, and XLA if its plugin is installed.
package testbackend
