// Package xlacache keeps the programs that XLA compiles in a folder, so that no process compiles a program that another one has compiled before it.
//
// [Install] puts a compiler of its own into a PJRT plugin's function table. The key of a program in the folder is a digest of everything that decides
// what the plugin makes of it: the program and its options, the plugin's file and its platform's version, XLA's flags, the device, its driver, and the instructions and the number of the
// processor's cores, because folders are shared between machines. An entry that is damaged, or that the plugin refuses, is
// compiled anew. A folder that others can write is not used: what is in it would run with the user's rights.
package xlacache
