//go:build turbo && cgo

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t int32x4 __attribute__((vector_size(16)));
typedef uint8_t uint8x4 __attribute__((vector_size(4)));

enum { fixed_point = 32 - 8 - 2 }; // As in resample.go.
static const int32_t half = 1 << (fixed_point - 1);

#if defined(__x86_64__) && defined(__GLIBC__)
#define for_each_cpu __attribute__((target_clones("avx2", "default")))
#else
#define for_each_cpu
#endif

static inline int32_t to_byte(int32_t sum) {
	int32_t v = sum >> fixed_point;
	return v < 0 ? 0 : v > 255 ? 255 : v;
}

// semcon_resample resizes RGBX pixels to RGB; see Interpolation.resample. Taps are as in resample.go. kept is the largest number of weights of a row.
for_each_cpu
int semcon_resample(uint8_t *out, long out_stride, const uint8_t *in, long in_stride,
		const int32_t *x_first, const int32_t *x_at, const int32_t *x_weights, int width,
		const int32_t *y_first, const int32_t *y_at, const int32_t *y_weights, int height, int kept) {
	long row = 3 * (long)width;
	uint8_t *wide = malloc(kept * (row + 1)); // Pixels are stored with a byte too many.
	int32_t *sums = malloc(row * sizeof *sums);
	if (!wide || !sums) {
		free(wide), free(sums);
		return 0;
	}
	int done = 0;
	for (int y = 0; y < height; y++) {
		const int32_t *weights = y_weights + y_at[y];
		int first = y_first[y], count = y_at[y + 1] - y_at[y];
		for (done = done < first ? first : done; done < first + count; done++) {
			uint8_t *to = wide + done % kept * (row + 1);
			for (int x = 0; x < width; x++) {
				const uint8_t *from = in + done * in_stride + 4 * (long)x_first[x];
				int32x4 sum = {half, half, half, half};
				for (int32_t k = x_at[x]; k < x_at[x + 1]; k++, from += 4) {
					uint8x4 pixel;
					memcpy(&pixel, from, 4);
					sum += __builtin_convertvector(pixel, int32x4) * x_weights[k];
				}
				sum >>= fixed_point;
				sum &= ~(sum < 0);
				sum |= (sum > 255);
				uint8x4 bytes = __builtin_convertvector(sum, uint8x4);
				memcpy(to + 3 * x, &bytes, 4);
			}
		}
		for (long i = 0; i < row; i++) sums[i] = half;
		for (int k = 0; k < count; k++) {
			const uint8_t *from = wide + (first + k) % kept * (row + 1);
			int32_t w = weights[k];
			for (long i = 0; i < row; i++) sums[i] += w * from[i];
		}
		for (long i = 0; i < row; i++) out[y * out_stride + i] = to_byte(sums[i]);
	}
	free(wide), free(sums);
	return 1;
}
