/* The additive score v . tanh(a + c) of every query and key.
 *
 * With tanh(a + c) = 1 - 2 / (1 + e^2a e^2c), the exponentials are computed once for each query and key, and a pair
 * costs one product, one reciprocal and one multiply-add. Nothing of size q x k x m is stored. The constant 1 stays
 * inside the sum, because subtracting the sum of v afterwards would lose digits. The caller guarantees |a| and |c| of
 * at most 40. additive_forward_plain handles larger numbers.
 *
 * The file includes itself, once for `float` and once for `double`.
 */
#ifndef REAL
#include <math.h>
#include <stdint.h>
#include <string.h>

/* e^x for |x| <= 80, in a form that compilers vectorise. NaN stays NaN. */
static inline float exp_f32(float x)
{
    float n = rintf(x * 1.44269504088896341f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 as a sum of two numbers, for full precision */
    float p = ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r +
               1.6666665459e-1f) * r + 5.0000001201e-1f;
    int32_t power = ((int32_t)n + 127) * (1 << 23);
    float scale;
    memcpy(&scale, &power, sizeof scale);
    return (p * r * r + r + 1) * scale;
}

#define REAL float
#define TANH tanhf
#define EXP exp_f32
#define NAME(x) x##_f32
#define HUGE_PRODUCT 1e18f
#include __FILE__
#undef REAL
#undef TANH
#undef EXP
#undef NAME
#undef HUGE_PRODUCT

#define REAL double
#define TANH tanh
#define EXP exp
#define NAME(x) x##_f64
#define HUGE_PRODUCT 1e150
#include __FILE__
#else

#define SLICE 32 /* columns of width m in one step of the backward pass, as many as fit in registers */
#define LANES 16 /* partial sums in the forward pass, two or four vectors */
#define ROUND 16 /* terms of one partial sum, few enough for small rounding errors */

static void NAME(exponentials)(const REAL *x, REAL *e, int64_t n) /* x and e may be the same */
{
    for (int64_t i = 0; i < n; i++) e[i] = EXP(2 * x[i]);
}

static REAL NAME(weighted_tanh)(const REAL *restrict ea, const REAL *restrict ec, const REAL *restrict v, int64_t M)
{
    REAL part[LANES] = {0}, sum = 0;
    int64_t m = 0;
    for (; m + LANES <= M; m += LANES)
        for (int l = 0; l < LANES; l++) part[l] += v[m + l] * (1 - 2 / (1 + ea[m + l] * ec[m + l]));
    for (; m < M; m++) sum += v[m] * (1 - 2 / (1 + ea[m] * ec[m]));
    for (int l = 0; l < LANES; l++) sum += part[l];
    return sum;
}

/* Scores (t,q,k) of a (t,q,m) and c (t,k,m). work holds (t k + threads) m numbers. */
void NAME(additive_forward)(const REAL *restrict a, const REAL *restrict c, const REAL *restrict v,
                            REAL *restrict scores, REAL *restrict work, int64_t T, int64_t Q, int64_t K, int64_t M,
                            int64_t threads)
{
    REAL *ec = work + threads * M;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t key = 0; key < T * K; key++) NAME(exponentials)(c + key * M, ec + key * M, M);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int64_t thread = 0; thread < threads; thread++) {
        REAL *ea = work + thread * M;
        for (int64_t row = T * Q * thread / threads; row < T * Q * (thread + 1) / threads; row++) {
            NAME(exponentials)(a + row * M, ea, M);
            for (int64_t j = 0; j < K; j++)
                scores[row * K + j] = NAME(weighted_tanh)(ea, ec + (row / Q * K + j) * M, v, M);
        }
    }
}

/* The same scores, for numbers whose exponentials would overflow. */
void NAME(additive_forward_plain)(const REAL *restrict a, const REAL *restrict c, const REAL *restrict v,
                                  REAL *restrict scores, int64_t T, int64_t Q, int64_t K, int64_t M, int64_t threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < T * Q; row++)
        for (int64_t j = 0; j < K; j++) {
            const REAL *ai = a + row * M, *cj = c + (row / Q * K + j) * M;
            REAL sum = 0;
            for (int64_t m = 0; m < M; m++) sum += v[m] * TANH(ai[m] + cj[m]);
            scores[row * K + j] = sum;
        }
}

/* Gradients of one slice of columns of one batch entry. With p = e^2a e^2c and r = 1 / (1 + p), tanh' = 4 p r^2, which
 * is precise for small and large p. p is limited to HUGE_PRODUCT so that p r^2 is never inf x 0. NaN stays NaN. */
static void NAME(backward_slice)(const REAL *restrict a, const REAL *restrict ec, const REAL *restrict v,
                                 const REAL *restrict g, REAL *restrict da, REAL *restrict dc, REAL *restrict dv,
                                 REAL *restrict part, int64_t Q, int64_t K, int64_t M, int64_t width)
{
    REAL total[SLICE] = {0};
    for (int64_t i0 = 0; i0 < Q; i0 += ROUND) {
        int64_t i1 = i0 + ROUND < Q ? i0 + ROUND : Q;
        for (int64_t x = 0; x < K * SLICE; x++) part[x] = 0;
        for (int64_t i = i0; i < i1; i++) {
            REAL ea[SLICE], row[SLICE] = {0}, weighted[SLICE] = {0};
            for (int x = 0; x < SLICE; x++) ea[x] = x < width ? a[i * M + x] : 0;
            for (int x = 0; x < SLICE; x++) ea[x] = EXP(2 * ea[x]);
            for (int64_t j0 = 0; j0 < K; j0 += ROUND) {
                int64_t j1 = j0 + ROUND < K ? j0 + ROUND : K;
                REAL near[SLICE] = {0}, near_weighted[SLICE] = {0};
                for (int64_t j = j0; j < j1; j++) {
                    const REAL *c = ec + j * SLICE;
                    REAL *d = part + j * SLICE;
                    REAL gij = g[i * K + j];
                    for (int x = 0; x < SLICE; x++) {
                        REAL p = ea[x] * c[x];
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

/* Gradients of a, c and v from the gradient g (t,q,k) of the scores. The caller sets dc to zero. dv is (t,m), with one
 * row for each batch entry. work holds 2 x threads x K x SLICE numbers. The slices of columns are independent, so the
 * result does not depend on the number of threads. */
void NAME(additive_backward)(const REAL *restrict a, const REAL *restrict c, const REAL *restrict v,
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
            for (int64_t j = 0; j < K; j++) /* copy the slice of all keys to contiguous memory */
                for (int x = 0; x < SLICE; x++) keys[j * SLICE + x] = x < width ? c[(t * K + j) * M + m + x] : 0;
            NAME(exponentials)(keys, keys, K * SLICE);
            NAME(backward_slice)(a + t * Q * M + m, keys, v + m, g + t * Q * K, da + t * Q * M + m,
                                 dc + t * K * M + m, dv + t * M + m, part, Q, K, M, width);
        }
    }
}
#undef SLICE
#undef LANES
#undef ROUND
#endif
