/* One step of a Transformer decoder for one sequence: all blocks and the last norm, for one new token.
 *
 * A step reads every weight once, so its time is that of reading memory. All blocks run in one parallel region, in which
 * each thread reads a contiguous part of the rows of every matrix. Short vectors are computed by each thread for itself,
 * since waiting for another thread takes longer. Weights are float32, bfloat16 or int8 with a scale
 * for each row. All sums are in float32.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t h16 __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint32_t u16x __attribute__((vector_size(64)));
typedef int8_t b16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef int16_t s16 __attribute__((vector_size(32)));
typedef int32_t i16x __attribute__((vector_size(64)));

enum { FLOAT32, BFLOAT16, INT8 };                      /* kinds of weights */
enum { GELU, GELU_TANH, RELU, SWIGLU };                /* activations */
enum { NO_ROTATION, NEIGHBOURS, HALVES };              /* rotary layouts "gpt-j" and "llama" */
enum { NORM_1, NORM_1_BIAS, Q, Q_BIAS, Q_SCALE, K, K_BIAS, K_SCALE, V, V_BIAS, V_SCALE, O, O_BIAS, O_SCALE,
       NORM_2, NORM_2_BIAS, WIDEN, WIDEN_BIAS, WIDEN_SCALE, NARROW, NARROW_BIAS, NARROW_SCALE, KEYS, VALUES, COLUMNS };

static inline float total(v16 s)
{
    float sum = 0;
    for (int l = 0; l < 16; l++) sum += s[l];
    return sum;
}

static inline v16 load_bfloat16(const uint16_t *w)
{
    return (v16)(__builtin_convertvector(*(const h16 *)w, u16x) << 16);
}

#define DOT(NAME, TYPE, LOAD, ONE)                                                                                   \
    static inline float NAME(const TYPE *restrict w, const float *restrict x, int64_t n)                             \
    {                                                                                                                \
        v16 a = {0}, b = {0}, c = {0}, d = {0};                                                                      \
        int64_t i = 0;                                                                                               \
        for (; i + 64 <= n; i += 64) {                                                                               \
            a += LOAD(w + i) * *(const v16 *)(x + i), b += LOAD(w + i + 16) * *(const v16 *)(x + i + 16);            \
            c += LOAD(w + i + 32) * *(const v16 *)(x + i + 32), d += LOAD(w + i + 48) * *(const v16 *)(x + i + 48);  \
        }                                                                                                            \
        for (; i + 16 <= n; i += 16) a += LOAD(w + i) * *(const v16 *)(x + i);                                       \
        float sum = total((a + b) + (c + d));                                                                        \
        for (; i < n; i++) sum += ONE(w[i]) * x[i];                                                                  \
        return sum;                                                                                                  \
    }

static inline float one_bfloat16(uint16_t w)
{
    uint32_t bits = (uint32_t)w << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#define LOAD_FLOAT(w) (*(const v16 *)(w))
/* The conversions double the width or keep it, because compilers vectorise no others. */
#define LOAD_INT8(w) \
    __builtin_convertvector(__builtin_convertvector(__builtin_convertvector(*(const b16 *)(w), s16), i16x), v16)
DOT(dot_float32, float, LOAD_FLOAT, (float))
DOT(dot_bfloat16, uint16_t, load_bfloat16, one_bfloat16)
DOT(dot_int8, int8_t, LOAD_INT8, (float))

/* Row r of W x + bias. W is (rows,n) of a kind of weights. scales and bias may be NULL. */
static inline float project_row(int64_t kind, const void *w, const float *scales, const float *bias, const float *x,
                                int64_t r, int64_t n)
{
    float sum;
    if (kind == FLOAT32) sum = dot_float32((const float *)w + r * n, x, n);
    else if (kind == BFLOAT16) sum = dot_bfloat16((const uint16_t *)w + r * n, x, n);
    else sum = dot_int8((const int8_t *)w + r * n, x, n) * scales[r];
    return bias ? sum + bias[r] : sum;
}

/* y = W x + bias for the rows of one thread, which does not wait for the others. */
static void project(int64_t kind, const void *w, const float *scales, const float *bias, const float *x, float *y,
                    int64_t rows, int64_t n)
{
#pragma omp for schedule(static) nowait
    for (int64_t r = 0; r < rows; r++) y[r] = project_row(kind, w, scales, bias, x, r, n);
}

/* e^x for |x| <= 80, in a form that compilers vectorise. Smaller numbers give e^-80. */
static inline float fast_exp(float x)
{
    x = x < -80.0f ? -80.0f : x > 80.0f ? 80.0f : x;
    float n = rintf(x * 1.44269504088896341f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 as a sum of two numbers, for full precision */
    float p = ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r +
               1.6666665459e-1f) * r + 5.0000001201e-1f;
    int32_t power = ((int32_t)n + 127) * (1 << 23);
    float scale;
    memcpy(&scale, &power, sizeof scale);
    return (p * r * r + r + 1) * scale;
}

/* y = norm(x), an RMS norm or a layer norm. All threads compute it, which is faster than waiting for one. */
static void normalise(const float *restrict x, const float *w, const float *bias, float *restrict y, int64_t n,
                      int64_t rms, float epsilon)
{
    float mean = 0, square = 0;
    if (!rms) {
        for (int64_t i = 0; i < n; i++) mean += x[i];
        mean /= n;
    }
    v16 s = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 part = *(const v16 *)(x + i) - mean;
        s += part * part;
    }
    square = total(s);
    for (; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    float by = 1.0f / sqrtf(square / n + epsilon);
    for (int64_t j = 0; j < n; j++) y[j] = (x[j] - mean) * by * w[j] + (bias ? bias[j] : 0.0f);
}

static void rotate(float *x, const float *cosine, const float *sine, int64_t d, int64_t layout)
{
    int64_t half = d / 2, step = layout == HALVES ? 1 : 2, other = layout == HALVES ? half : 1;
    for (int64_t i = 0; i < half; i++) {
        float a = x[i * step], b = x[i * step + other];
        x[i * step] = a * cosine[i] - b * sine[i];
        x[i * step + other] = a * sine[i] + b * cosine[i];
    }
}

/* The attention of one query head to count keys, which are `step` numbers apart, and to the new key after them. There
 * are count + 1 values and scores. */
static void attend(const float *q, const float *keys, const float *new_key, const float *values,
                   float *restrict scores, float *restrict out, int64_t count, int64_t step, int64_t d, float scale)
{
    float most = scores[count] = dot_float32(new_key, q, d) * scale, sum = 0;
    for (int64_t j = 0; j < count; j++) {
        scores[j] = dot_float32(keys + j * step, q, d) * scale;
        most = scores[j] > most ? scores[j] : most;
    }
    for (int64_t j = 0; j <= count; j++) scores[j] = fast_exp(scores[j] - most);
    for (int64_t j = 0; j <= count; j++) sum += scores[j];
    memset(out, 0, d * sizeof *out);
    for (int64_t j = 0; j <= count; j++) {
        const float *v = values + j * step;
        for (int64_t i = 0; i < d; i++) out[i] += scores[j] * v[i];
    }
    for (int64_t i = 0; i < d; i++) out[i] /= sum;
}

static inline float activate(float x, int64_t kind)
{
    if (kind == RELU) return x > 0 ? x : 0;
    if (kind == GELU) return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}

typedef struct {
    int64_t layers, m, heads, groups, d, f, activation, rms, layout, place, first, kind, threads;
} sizes;

/* x (m) += each block of x, and then x = norm(x).
 *
 * pointers (layers,COLUMNS) are addresses, 0 where there is no such tensor. final (2) are those of the last norm. Keys
 * and values are (capacity,groups,d), and the new ones are written to row `place`. Keys from row `first` on are seen.
 * numbers are epsilon and the scale of the scores. turn (d) are the cosines and the sines of this place. work holds
 * 2 m + 2 heads d + groups d + f + heads (place + 1) numbers.
 */
void decoder_step_f32(const int64_t *pointers, const int64_t *final, const int64_t *given, const float *numbers,
                      const float *turn, float *x, float *work)
{
    sizes s;
    memcpy(&s, given, sizeof s);
    int64_t width = s.heads * s.d, keys = s.groups * s.d;
    float *q = work, *context = q + width, *hidden = context + width, *y = hidden + s.f, *z = y + s.m;
    float *new_keys = z + s.m, *scores = new_keys + keys;
#pragma omp parallel num_threads(s.threads)
    {
        float state[s.m], input[s.m], key[s.d]; /* of this thread; the first is equal in all of them */
        memcpy(state, x, s.m * sizeof *x);
        for (int64_t layer = 0; layer < s.layers; layer++) {
            const int64_t *p = pointers + layer * COLUMNS;
#define AT(name) ((const float *)p[name])
            float *k = (float *)p[KEYS] + s.place * keys, *v = (float *)p[VALUES] + s.place * keys;
            normalise(state, AT(NORM_1), AT(NORM_1_BIAS), input, s.m, s.rms, numbers[0]);
            project(s.kind, AT(Q), AT(Q_SCALE), AT(Q_BIAS), input, q, width, s.m);
            project(s.kind, AT(K), AT(K_SCALE), AT(K_BIAS), input, new_keys, keys, s.m);
            project(s.kind, AT(V), AT(V_SCALE), AT(V_BIAS), input, v, keys, s.m);
#pragma omp barrier
#pragma omp for schedule(static)
            for (int64_t h = 0; h < s.heads; h++) {
                int64_t share = s.heads / s.groups, group = h / share * s.d, first = group + s.first * keys;
                memcpy(key, new_keys + group, s.d * sizeof *key);
                if (s.layout != NO_ROTATION) {
                    rotate(q + h * s.d, turn, turn + s.d / 2, s.d, s.layout);
                    rotate(key, turn, turn + s.d / 2, s.d, s.layout);
                }
                if (h % share == 0) memcpy(k + group, key, s.d * sizeof *key);
                attend(q + h * s.d, AT(KEYS) + first, key, AT(VALUES) + first, scores + h * (s.place + 1),
                       context + h * s.d, s.place - s.first, keys, s.d, numbers[1]);
            }
            project(s.kind, AT(O), AT(O_SCALE), AT(O_BIAS), context, y, s.m, width);
#pragma omp barrier
            for (int64_t i = 0; i < s.m; i++) state[i] += y[i];
            normalise(state, AT(NORM_2), AT(NORM_2_BIAS), input, s.m, s.rms, numbers[0]);
#pragma omp for schedule(static)
            for (int64_t i = 0; i < s.f; i++) {
                float up = project_row(s.kind, AT(WIDEN), AT(WIDEN_SCALE), AT(WIDEN_BIAS), input, i, s.m);
                if (s.activation == SWIGLU) {
                    float gate = project_row(s.kind, AT(WIDEN), AT(WIDEN_SCALE), AT(WIDEN_BIAS), input, s.f + i, s.m);
                    hidden[i] = up * (gate / (1.0f + fast_exp(-gate)));
                } else hidden[i] = activate(up, s.activation);
            }
            project(s.kind, AT(NARROW), AT(NARROW_SCALE), AT(NARROW_BIAS), hidden, z, s.m, s.f);
#pragma omp barrier
            for (int64_t i = 0; i < s.m; i++) state[i] += z[i];
        }
#pragma omp single nowait
        normalise(state, (const float *)final[0], (const float *)final[1], x, s.m, s.rms, numbers[0]);
    }
}

/* y (rows) = W x + bias for one vector x (n). pointers are those of W, of its scales and of the bias, or 0. */
void project_vector_f32(const int64_t *pointers, const float *x, float *y, int64_t kind, int64_t rows, int64_t n,
                        int64_t threads)
{
#pragma omp parallel num_threads(threads)
    project(kind, (const void *)pointers[0], (const float *)pointers[1], (const float *)pointers[2], x, y, rows, n);
}
