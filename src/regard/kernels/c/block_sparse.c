/* Block-sparse attention in float32, forward and backward.
 *
 * Queries, keys and values are given in blocks of 64 tokens, (t, blocks, 64, d), with t = batch x head and d a multiple
 * of 16. Query block i attends to the key blocks cols[start[i]] to cols[start[i+1] - 1]. Pair p of blocks is visible as
 * a whole if kept[p] < 0. Otherwise block kept[p] of keep has 64 x 64 bytes, 1 for visible pairs of tokens. The softmax
 * is computed online, so each thread holds one block of scores. Scores are stored as (keys, queries), so that only the
 * queries are transposed and one vector holds eight queries.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define B 64
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8 __attribute__((vector_size(32)));

typedef struct { /* the arguments that all functions share */
    const int64_t *start, *cols, *kept;
    const uint8_t *keep; /* (batch or 1, heads or 1, pairs, 64 keys, 64 queries) */
    int64_t batch_step, head_step, heads, T, NQ, NK, D;
    float scale;
} job;

/* e^x for eight numbers x <= 0. Results below the smallest normal number are 0. NaN stays NaN. */
static inline v8 exp8(v8 x)
{
    i8 tiny = x < -87.0f;
    v8 y = x * 1.44269504088896341f, n;
    for (int l = 0; l < 8; l++) n[l] = __builtin_rintf(y[l]);
    v8 r = x - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 as a sum of two numbers, for full precision */
    v8 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    i8 power = (__builtin_convertvector(n, i8) + 127) << 23;
    v8 e = p * (v8)power;
    return (v8)((i8)e & ~tiny);
}

/* C (m,n) += A (m,k) B (k,n). Rows of B and C are contiguous, A has any strides, m % 4 == 0 and n % 16 == 0. */
static inline void add_product(float *restrict c, int64_t ldc, const float *restrict a, int64_t row, int64_t col,
                               const float *restrict b, int64_t ldb, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i += 4)
        for (int64_t j = 0; j < n; j += 16) {
            float *c0 = c + i * ldc + j, *c1 = c0 + ldc, *c2 = c1 + ldc, *c3 = c2 + ldc;
            v8 s00 = *(v8 *)c0, s01 = *(v8 *)(c0 + 8), s10 = *(v8 *)c1, s11 = *(v8 *)(c1 + 8);
            v8 s20 = *(v8 *)c2, s21 = *(v8 *)(c2 + 8), s30 = *(v8 *)c3, s31 = *(v8 *)(c3 + 8);
            const float *ai = a + i * row;
            for (int64_t x = 0; x < k; x++) {
                v8 b0 = *(v8 *)(b + x * ldb + j), b1 = *(v8 *)(b + x * ldb + j + 8);
                const float *ax = ai + x * col;
                s00 += ax[0] * b0, s01 += ax[0] * b1, s10 += ax[row] * b0, s11 += ax[row] * b1;
                s20 += ax[2 * row] * b0, s21 += ax[2 * row] * b1, s30 += ax[3 * row] * b0, s31 += ax[3 * row] * b1;
            }
            *(v8 *)c0 = s00, *(v8 *)(c0 + 8) = s01, *(v8 *)c1 = s10, *(v8 *)(c1 + 8) = s11;
            *(v8 *)c2 = s20, *(v8 *)(c2 + 8) = s21, *(v8 *)c3 = s30, *(v8 *)(c3 + 8) = s31;
        }
}

/* y (d,64) is the transpose of x (64,d), times `by`. */
static void transpose(const float *restrict x, float *restrict y, int64_t D, float by)
{
    for (int64_t d = 0; d < D; d++)
        for (int i = 0; i < B; i++) y[d * B + i] = by * x[i * D + d];
}

static const uint8_t *kept_pairs(const job *w, int64_t t, int64_t pair)
{
    if (w->kept[pair] < 0) return 0;
    return w->keep + t / w->heads * w->batch_step + t % w->heads * w->head_step + w->kept[pair] * B * B;
}

/* Scores (keys,queries) of a block of keys with transposed, scaled queries. Masked pairs get -inf. */
static void block_scores(const job *w, const float *k, const float *qt, const uint8_t *keep, float *s)
{
    memset(s, 0, B * B * sizeof(float));
    add_product(s, B, k, w->D, 1, qt, B, B, B, w->D);
    if (keep)
        for (int x = 0; x < B * B; x++) s[x] = keep[x] ? s[x] : -INFINITY;
}

static void scale_row(float *x, int64_t D, float by)
{
    for (int64_t d = 0; d < D; d += 8) *(v8 *)(x + d) *= by;
}

static inline v8 pick(i8 which, v8 yes, v8 no)
{
    return (v8)(((i8)yes & which) | ((i8)no & ~which));
}

/* Add one block of scores to the online softmax, updating the maximum and the sum of each query and the output. */
static void online_step(const job *w, float *s, const float *v, float *top, float *sum, float *out)
{
    float fade[B] __attribute__((aligned(32)));
    const v8 zero = {0}, nothing = zero - INFINITY;
    for (int i = 0; i < B; i += 8) {
        v8 old = *(v8 *)(top + i), m = old, total = zero;
        for (int j = 0; j < B; j++) {
            v8 x = *(v8 *)(s + j * B + i);
            m = pick((x > m) | (x != x), x, m); /* NaN counts as the maximum, so it shows in the result */
        }
        v8 base = pick(m == nothing, zero, m); /* no visible key yet */
        for (int j = 0; j < B; j++) {
            v8 e = exp8(*(v8 *)(s + j * B + i) - base);
            *(v8 *)(s + j * B + i) = e;
            total += e;
        }
        v8 f = exp8(old - base);
        *(v8 *)(fade + i) = f;
        *(v8 *)(sum + i) = *(v8 *)(sum + i) * f + total;
        *(v8 *)(top + i) = m;
    }
    for (int i = 0; i < B; i++)
        if (fade[i] != 1) scale_row(out + i * w->D, w->D, fade[i]);
    add_product(out, w->D, s, 1, B, v, w->D, B, w->D, B);
}

static void forward_block(const job *w, int64_t t, int64_t i, const float *q, const float *k, const float *v,
                          float *out, float *lse, float *qt)
{
    int64_t size = B * w->D;
    float s[B * B] __attribute__((aligned(32))), top[B] __attribute__((aligned(32))), sum[B] __attribute__((aligned(32)));
    transpose(q, qt, w->D, w->scale);
    memset(out, 0, size * sizeof(float));
    for (int r = 0; r < B; r++) top[r] = -INFINITY, sum[r] = 0;
    for (int64_t p = w->start[i]; p < w->start[i + 1]; p++) {
        int64_t at = (t * w->NK + w->cols[p]) * size;
        block_scores(w, k + at, qt, kept_pairs(w, t, p), s);
        online_step(w, s, v + at, top, sum, out);
    }
    for (int r = 0; r < B; r++) {
        scale_row(out + r * w->D, w->D, sum[r] == 0 ? 0 : 1 / sum[r]);
        lse[r] = sum[r] == 0 ? 0 : top[r] + logf(sum[r]); /* 0 for a row without keys, whose weights e^(-inf - 0) are 0 */
    }
}

/* Output and log-sum-exp of all query blocks. work holds threads x 64 x D numbers. */
void block_sparse_forward_f32(const float *q, const float *k, const float *v, float *out, float *lse, float *work,
                       const int64_t *start, const int64_t *cols, const int64_t *kept, const uint8_t *keep,
                       const float *scale, int64_t batch_step, int64_t head_step, int64_t heads, int64_t T, int64_t NQ,
                       int64_t NK, int64_t D, int64_t threads)
{
    job w = {start, cols, kept, keep, batch_step, head_step, heads, T, NQ, NK, D, *scale};
    int64_t next = 0;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int64_t thread = 0; thread < threads; thread++)
        for (;;) { /* query blocks differ in cost, so each thread takes the next free one */
            int64_t task;
#pragma omp atomic capture
            task = next++;
            if (task >= T * NQ) break;
            int64_t at = task * B * D;
            forward_block(&w, task / NQ, task % NQ, q + at, k, v, out + at, lse + task * B, work + thread * B * D);
        }
}

/* Replace the scores p by the weights, and their gradient dp by that of the scores. Both are (keys,queries). */
static void weights_and_gradient(float *p, float *dp, const float *lse, const float *delta, const uint8_t *keep)
{
    for (int j = 0; j < B; j++)
        for (int i = 0; i < B; i += 8) {
            float *pj = p + j * B + i, *dj = dp + j * B + i;
            v8 weight = exp8(*(v8 *)pj - *(v8 *)(lse + i));
            *(v8 *)pj = weight;
            *(v8 *)dj = weight * (*(v8 *)dj - *(v8 *)(delta + i));
        }
    if (keep) /* masked pairs are 0 even if the row holds NaN */
        for (int x = 0; x < B * B; x++) p[x] = keep[x] ? p[x] : 0, dp[x] = keep[x] ? dp[x] : 0;
}

/* Compute dq of one query block, and add its part of dk and dv. buf holds (3 D + 2 x 64) x 64 numbers. */
static void backward_block(const job *w, int64_t t, int64_t i, const float *q, const float *k, const float *v,
                           const float *g, const float *out, const float *lse, float *dq, float *dk, float *dv,
                           float *buf)
{
    int64_t D = w->D, size = B * D;
    float *qs = buf, *qt = qs + size, *gt = qt + size, *p = gt + size, *dp = p + B * B, delta[B];
    for (int64_t x = 0; x < size; x++) qs[x] = q[x] * w->scale, dq[x] = 0;
    transpose(q, qt, D, w->scale);
    transpose(g, gt, D, 1);
    for (int r = 0; r < B; r++) {
        v8 dot = {0};
        for (int64_t d = 0; d < D; d += 8) dot += *(v8 *)(g + r * D + d) * *(v8 *)(out + r * D + d);
        delta[r] = 0;
        for (int l = 0; l < 8; l++) delta[r] += dot[l];
    }
    for (int64_t pair = w->start[i]; pair < w->start[i + 1]; pair++) {
        int64_t at = (t * w->NK + w->cols[pair]) * size;
        const uint8_t *keep = kept_pairs(w, t, pair);
        block_scores(w, k + at, qt, keep, p);
        memset(dp, 0, B * B * sizeof(float));
        add_product(dp, B, v + at, D, 1, gt, B, B, B, D);
        weights_and_gradient(p, dp, lse, delta, keep);
        add_product(dv + at, D, p, B, 1, g, D, B, D, B);
        add_product(dq, D, dp, 1, B, k + at, D, B, D, B);
        add_product(dk + at, D, dp, B, 1, qs, D, B, D, B);
    }
    for (int r = 0; r < B; r++) scale_row(dq + r * D, D, w->scale);
}

/* Gradients of q, k and v. dk and dv hold `parts` times (t, blocks, 64, d) and are zero before the call. Each part of
 * the query blocks adds to a copy of its own, so threads never write to the same memory and the sum is reproducible. */
void block_sparse_backward_f32(const float *q, const float *k, const float *v, const float *g, const float *out,
                        const float *lse, float *dq, float *dk, float *dv, float *work, const int64_t *start,
                        const int64_t *cols, const int64_t *kept, const uint8_t *keep, const float *scale,
                        int64_t batch_step, int64_t head_step, int64_t heads, int64_t T, int64_t NQ, int64_t NK,
                        int64_t D, int64_t parts, int64_t threads)
{
    job w = {start, cols, kept, keep, batch_step, head_step, heads, T, NQ, NK, D, *scale};
    int64_t next = 0;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int64_t thread = 0; thread < threads; thread++)
        for (;;) {
            int64_t task;
#pragma omp atomic capture
            task = next++;
            if (task >= T * parts) break;
            int64_t t = task / parts, part = task % parts, shift = part * T * NK * B * D;
            for (int64_t i = NQ * part / parts; i < NQ * (part + 1) / parts; i++) {
                int64_t at = (t * NQ + i) * B * D;
                backward_block(&w, t, i, q + at, k, v, g + at, out + at, lse + (t * NQ + i) * B, dq + at, dk + shift,
                               dv + shift, work + thread * B * (3 * D + 2 * B));
            }
        }
}
