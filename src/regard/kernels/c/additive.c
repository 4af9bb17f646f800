/* The additive score, v . tanh(a + c), for every pair of a query and a key.
 *
 * tanh(a + c) = 1 - 2 / (1 + e^2a e^2c), so the exponentials are taken once a position by the caller and a
 * pair costs one product, one reciprocal and one weighted sum. Nothing of size q x k x m is ever stored.
 * The sum keeps the constant 1: leaving it out would cost digits when v has a mean.
 *
 * Compiled once for `float` and once for `double` by including itself.
 */
#ifndef REAL
#include <math.h>
#include <stdint.h>

#define REAL float
#define TANH tanhf
#define NAME(x) x##_f32
#define HUGE_PRODUCT 1e18f
#include __FILE__
#undef REAL
#undef TANH
#undef NAME
#undef HUGE_PRODUCT

#define REAL double
#define TANH tanh
#define NAME(x) x##_f64
#define HUGE_PRODUCT 1e150
#include __FILE__
#else

#define SLICE 32 /* widths taken at once in the backward pass: what fits in registers */
#define LANES 16 /* partial sums in the forward pass: two or four vectors */
#define ROUND 16 /* terms added before a partial sum is put away: keeps rounding errors small */

/* scores (t,q,k) of ea = e^2a (t,q,m) and ec = e^2c (t,k,m) */
void NAME(additive_forward)(const REAL *restrict ea, const REAL *restrict ec, const REAL *restrict v,
                            REAL *restrict scores, int64_t T, int64_t Q, int64_t K, int64_t M, int64_t threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < T * Q; row++) {
        const REAL *a = ea + row * M;
        for (int64_t j = 0; j < K; j++) {
            const REAL *c = ec + (row / Q * K + j) * M;
            REAL part[LANES] = {0}, sum = 0;
            int64_t m = 0;
            for (; m + LANES <= M; m += LANES)
                for (int l = 0; l < LANES; l++) part[l] += v[m + l] * (1 - 2 / (1 + a[m + l] * c[m + l]));
            for (; m < M; m++) sum += v[m] * (1 - 2 / (1 + a[m] * c[m]));
            for (int l = 0; l < LANES; l++) sum += part[l];
            scores[row * K + j] = sum;
        }
    }
}

/* the same from a and c themselves, for numbers whose exponential would overflow */
void NAME(additive_forward_plain)(const REAL *restrict a_, const REAL *restrict c_, const REAL *restrict v,
                                  REAL *restrict scores, int64_t T, int64_t Q, int64_t K, int64_t M, int64_t threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < T * Q; row++) {
        const REAL *a = a_ + row * M;
        for (int64_t j = 0; j < K; j++) {
            const REAL *c = c_ + (row / Q * K + j) * M;
            REAL sum = 0;
            for (int64_t m = 0; m < M; m++)
                sum += v[m] * TANH(a[m] + c[m]);
            scores[row * K + j] = sum;
        }
    }
}

/* One slice of the widths of one batch entry. With r = 1 / (1 + p): tanh' = 4 p r^2, which loses no digits at
 * either end; p is held below HUGE_PRODUCT so that p r^2 is never inf x 0. A NaN passes through. */
static void NAME(backward_slice)(const REAL *restrict ea, const REAL *restrict ec, const REAL *restrict v,
                                 const REAL *restrict g, REAL *restrict da, REAL *restrict dc, REAL *restrict dv,
                                 REAL *restrict part, int64_t Q, int64_t K, int64_t M, int64_t width)
{
    REAL total[SLICE] = {0};
    for (int64_t i0 = 0; i0 < Q; i0 += ROUND) {
        int64_t i1 = i0 + ROUND < Q ? i0 + ROUND : Q;
        for (int64_t x = 0; x < K * SLICE; x++) part[x] = 0;
        for (int64_t i = i0; i < i1; i++) {
            REAL a[SLICE], row[SLICE] = {0}, weighted[SLICE] = {0};
            for (int x = 0; x < SLICE; x++) a[x] = x < width ? ea[i * M + x] : 0;
            for (int64_t j0 = 0; j0 < K; j0 += ROUND) {
                int64_t j1 = j0 + ROUND < K ? j0 + ROUND : K;
                REAL near[SLICE] = {0}, near_weighted[SLICE] = {0};
                for (int64_t j = j0; j < j1; j++) {
                    const REAL *c = ec + j * SLICE;
                    REAL *d = part + j * SLICE;
                    REAL gij = g[i * K + j];
                    for (int x = 0; x < SLICE; x++) {
                        REAL p = a[x] * c[x];
                        p = p > HUGE_PRODUCT ? HUGE_PRODUCT : p;
                        REAL r = 1 / (1 + p), u = gij * (p * r * r);
                        near[x] += u;
                        d[x] += u;
                        near_weighted[x] += gij * (1 - 2 * r);
                    }
                }
                for (int x = 0; x < SLICE; x++) row[x] += near[x], weighted[x] += near_weighted[x];
            }
            for (int x = 0; x < width; x++) da[i * M + x] = 4 * v[x] * row[x];
            for (int x = 0; x < SLICE; x++) total[x] += weighted[x];
        }
        for (int64_t j = 0; j < K; j++)
            for (int x = 0; x < width; x++) dc[j * M + x] += 4 * v[x] * part[j * SLICE + x];
    }
    for (int x = 0; x < width; x++) dv[x] = total[x];
}

/* Gradients of a, c and v from that of the scores, g (t,q,k). dc must come zeroed; dv is (t,m), one row a batch
 * entry. work holds 2 x threads x K x SLICE numbers. Slices of the widths are independent, so the result does
 * not depend on the number of threads. */
void NAME(additive_backward)(const REAL *restrict ea, const REAL *restrict ec, const REAL *restrict v,
                             const REAL *restrict g, REAL *restrict da, REAL *restrict dc, REAL *restrict dv,
                             REAL *restrict work, int64_t T, int64_t Q, int64_t K, int64_t M, int64_t threads)
{
    int64_t slices = (M + SLICE - 1) / SLICE, tasks = T * slices;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int64_t thread = 0; thread < threads; thread++) {
        REAL *keys = work + thread * 2 * K * SLICE, *part = keys + K * SLICE;
        for (int64_t task = thread; task < tasks; task += threads) {
            int64_t t = task / slices, m = task % slices * SLICE;
            int64_t width = M - m < SLICE ? M - m : SLICE;
            for (int64_t j = 0; j < K; j++) /* the slice of all keys, side by side */
                for (int x = 0; x < SLICE; x++) keys[j * SLICE + x] = x < width ? ec[(t * K + j) * M + m + x] : 0;
            NAME(backward_slice)(ea + t * Q * M + m, keys, v + m, g + t * Q * K, da + t * Q * M + m,
                                 dc + t * K * M + m, dv + t * M + m, part, Q, K, M, width);
        }
    }
}
#undef SLICE
#undef LANES
#undef ROUND
#endif
