// Package analysis says what measured numbers mean: intervals over seeds and rank correlation.
package analysis
