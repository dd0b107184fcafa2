//go:build turbo && cgo

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t int32x8 __attribute__((vector_size(32)));
typedef uint32_t uint32x8 __attribute__((vector_size(32)));
typedef uint64_t uint64x4 __attribute__((vector_size(32)));

enum { fixed_point = 32 - 8 - 2, block = 32 }; // As in preprocessing.go; bytes that are summed at a time.
static const int32_t half = 1 << (fixed_point - 1);

#if defined(__x86_64__) && defined(__GLIBC__)
#define for_each_cpu __attribute__((target_clones("avx2", "default")))
#else
#define for_each_cpu
#endif

// semcon_resample resizes RGBX pixels to RGB; see Interpolation.resample. Taps are as in preprocessing.go.
for_each_cpu
int semcon_resample(uint8_t *out, long out_stride, const uint8_t *in, long in_stride,
		const int32_t *x_first, const int32_t *x_weights, int x_count, int width,
		const int32_t *y_first, const int32_t *y_weights, int y_count, int height) {
	long row = 3 * (long)width, line = (row + block - 1) / block * block;
	uint8_t *wide = calloc(y_count, line); // The rows that a row of the result needs are all that is kept of the first pass.
	const uint8_t **rows = malloc(y_count * sizeof *rows);
	if (!wide || !rows) {
		free(wide), free(rows);
		return 0;
	}
	for (int y = 0, done = 0; y < height; y++, y_weights += y_count) {
		int first = y_first[y];
		for (done = done < first ? first : done; done < first + y_count; done++) {
			uint8_t *to = wide + done % y_count * line;
			const int32_t *weights = x_weights;
			for (int x = 0; x < width; x++, to += 3) {
				const uint8_t *from = in + done * in_stride + 4 * (long)x_first[x];
				// Two taps at a time: red of both, green of both, blue of both.
				int32x8 sums = {half, 0, half, 0, half, 0, 0, 0};
				for (int k = 0; k < x_count; k += 2, from += 8, weights += 2) {
					uint64_t pixels = 0, pair = 0;
					if (k + 1 < x_count) memcpy(&pixels, from, 8), memcpy(&pair, weights, 8);
					else memcpy(&pixels, from, 4), memcpy(&pair, weights--, 4); // The last one of an odd number.
					uint32x8 colours = (uint32x8)(uint64x4){pixels, pixels, pixels, pixels} >> (uint32x8){0, 0, 8, 8, 16, 16, 24, 24} & 255;
					sums += (int32x8)colours * (int32x8)(uint64x4){pair, pair, pair, pair};
				}
				sums = (sums + __builtin_shuffle(sums, (int32x8){1, 0, 3, 2, 5, 4, 7, 6})) >> fixed_point;
				sums &= sums > 0;
				sums |= sums > 255;
				for (int c = 0; c < 3; c++) to[c] = ((uint64x4)sums)[c];
			}
		}
		for (int k = 0; k < y_count; k++) rows[k] = wide + (first + k) % y_count * line;
		for (long at = 0; at < row; at += block) {
			int32_t sums[block];
			for (int i = 0; i < block; i++) sums[i] = half;
			for (int k = 0; k < y_count; k++) {
				for (int i = 0; i < block; i++) sums[i] += y_weights[k] * rows[k][at + i];
			}
			uint8_t bytes[block];
			for (int i = 0; i < block; i++) {
				int32_t v = sums[i] >> fixed_point;
				v = v > 0 ? v : 0;
				bytes[i] = v < 255 ? v : 255;
			}
			if (row - at >= block) memcpy(out + y * out_stride + at, bytes, block);
			else memcpy(out + y * out_stride + at, bytes, row - at);
		}
	}
	free(wide), free(rows);
	return 1;
}
