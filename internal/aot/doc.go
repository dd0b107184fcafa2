// Aot says what a training step would take on an NVIDIA H200, on a machine that has none: memory, bytes moved, FLOP by dtype, and a lower bound on
// its time. XLA's CUDA plugin compiles for a GPU that a text describes, h200.txtpb.
//
//	go run ./internal/aot                              # the paper's step in bfloat16, beside the figures of figures.json
//	go run ./internal/aot --top 40                     # also the launches that take most of the time
//	go run ./internal/aot --set batch=128 --name 128   # another configuration, with the keys of "semcon run pretrain --set"
//	go run ./internal/aot --step upernet               # a fine-tuning step of the full profile: upernet, fpn, detection
//
// The first call makes a virtual environment under .semcon/ with the packages of requirements.txt, which takes 1.4 GB. A call takes about a minute of one
// core and 2 GB of memory. It needs the CPU plugin that "semcon lab --setup-only" installs. docs/speed.md has the figures and what they mean.
package main
