// Package cluster writes a study as a job of a cluster: an array of Slurm or an Indexed Job of Kubernetes, with one task a cell.
//
// In goes a [Job], which names the command and its cells. Out comes the text of the file that sbatch or kubectl takes. The cluster schedules; this package
// does not. A new kind of cluster is a template and an entry in [Kinds].
package cluster
