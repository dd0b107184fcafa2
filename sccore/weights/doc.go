// Package weights reads and writes the weights of models: checkpoints of runs in the safetensors format, and vision transformers in the files
// of PyTorch and timm. It treats every file as hostile: nothing in a file is executed, and memory is bounded by the size of the file.
//
// Add a format as a file of its own that returns tensors by name, and a case in the fuzz tests.
package weights
