// Package backend opens the engine that computation graphs run on: XLA through PJRT if its plugin is installed, else GoMLX's pure-Go engine.
//
// [Open] chooses in this order and never downloads anything:
//
//  1. $GOMLX_BACKEND, if set: "go", "xla:/path/to/plugin.so", or "xla:cuda" or "xla:cpu" for an installed plugin. GoMLX's options may follow
//     after a comma, as in "xla:cuda,tf32=false".
//  2. A plugin under .semcon/ in the checkout, installed by "semcon lab": CUDA if the machine has an NVIDIA driver, else CPU.
//  3. The same in the user's cache folder, installed by "semcon lab --setup-only --global".
//  4. The pure-Go engine.
//
// [Engine] describes the choice.
package backend
