// Package filelock keeps processes apart by lock files. The operating system releases a lock when its process ends, even if it is killed.
//
// In goes the path of a lock file, which is created. Out comes a function that releases the lock. Package study locks the folder of a running cell,
// fetch a download, and the set-up of the notebooks the checkout.
package filelock
