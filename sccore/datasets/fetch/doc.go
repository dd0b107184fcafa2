// Package fetch downloads datasets into a data folder, in their official layouts, where package datasets reads them. An interrupted download
// resumes, and a dataset's folder appears only when it is complete.
//
// To add a dataset, add an entry to archives, with the digest that its authors publish.
package fetch
