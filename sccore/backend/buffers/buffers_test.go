//go:build cgo && linux

package buffers

import (
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"
)

// TestBuffersAreWhole allocates and frees blocks of all sizes from several threads. Each block keeps its first and last bytes, is aligned, and
// keeps its content when it moves.
func TestBuffersAreWhole(t *testing.T) {
	var group sync.WaitGroup
	for seed := range uint64(4) {
		group.Go(func() {
			type held struct {
				bytes []byte
				mark  byte
			}
			rng := rand.New(rand.NewPCG(seed, 0))
			var blocks []held
			check := func(b held) {
				if b.bytes[0] != b.mark || b.bytes[len(b.bytes)-1] != b.mark {
					t.Errorf("a block of %d bytes was written to by another", len(b.bytes))
				}
			}
			for i := range 2000 {
				if len(blocks) > 8 || (len(blocks) > 0 && rng.IntN(3) == 0) {
					at := rng.IntN(len(blocks))
					check(blocks[at])
					free(unsafe.Pointer(&blocks[at].bytes[0]))
					blocks[at] = blocks[len(blocks)-1]
					blocks = blocks[:len(blocks)-1]
					continue
				}
				size := 1 + rng.IntN(1<<(10+rng.IntN(14)))
				alignment := 16 << rng.IntN(14)
				block := alignedAlloc(alignment, size)
				if block == nil || uintptr(block)%uintptr(alignment) != 0 {
					t.Errorf("a block of %d bytes at %p is not aligned to %d", size, block, alignment)
					return
				}
				b := held{unsafe.Slice((*byte)(block), size), byte(i)}
				b.bytes[0], b.bytes[size-1] = b.mark, b.mark
				if rng.IntN(4) == 0 {
					block = realloc(block, size+1)
					b.bytes = unsafe.Slice((*byte)(block), size+1)
					if b.bytes[size-1] != b.mark {
						t.Errorf("a block of %d bytes lost its end on the move", size)
					}
					b.bytes[size] = b.mark
				}
				blocks = append(blocks, b)
			}
			for _, b := range blocks {
				check(b)
				free(unsafe.Pointer(&b.bytes[0]))
			}
		})
	}
	group.Wait()
}

// TestLargeBuffersStay checks the purpose of the file: the next step gets the pages of the previous one.
func TestLargeBuffersStay(t *testing.T) {
	const size = 5 << 20
	first := alignedAlloc(64, size)
	*(*byte)(first) = 42
	free(first)
	second := alignedAlloc(64, size)
	defer free(second)
	if second != first || *(*byte)(second) != 42 {
		t.Errorf("a block of %d bytes went from %p to %p", size, first, second)
	}
}
