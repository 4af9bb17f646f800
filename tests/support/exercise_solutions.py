"""Right solutions of the exercises as learners write them, and edits that make them wrong in a known way.

``SOLUTIONS`` has sources by exercise. ``EDITS`` has, for the first source of an exercise, a text to replace, its
replacement and the mistakes that have to be named.
"""

HEAD = """
import math
import numpy as np

def soft(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""

SOLUTIONS: dict[str, list[str]] = {
    "softmax": [
        """
def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=-1, keepdims=True)
""",
        """
def softmax(x):
    if x.ndim > 1:
        return np.array([softmax(row) for row in x])
    top = max(x)
    powers = [math.exp(number - top) for number in x]
    return [power / sum(powers) for power in powers]
""",
        """
def softmax(x):
    log_sum = np.logaddexp.reduce(x, axis=-1, keepdims=True)
    return np.exp(x - log_sum)
""",
    ],
    "scores": [
        """
def scores(q, k):
    d = q.shape[0]
    return k @ q / np.sqrt(d)
""",
        """
def scores(q, k):
    return [sum(a * b for a, b in zip(q, key)) / len(q) ** 0.5 for key in k]
""",
        """
def scores(q, k):
    return np.einsum("d,nd->n", q * q.size ** -0.5, k)
""",
    ],
    "worked_example": [
        "def worked_example():\n    return [0.4011, 0.1978, 0.4011], [16.0445, 3.9555]\n",
        "def worked_example():\n    return (0.40, 0.20, 0.40), np.array([[16.0, 4.0]])\n",
    ],
    "weights_by_hand": [
        "def weights_by_hand():\n    return [0.2312, 0.6285, 0.1402], 15.584\n",
        "def weights_by_hand():\n    return np.array([[0.231, 0.628, 0.140]]), [[15.57]]\n",
    ],
    "simple_attention": [
        """
def simple_attention(Q, K, V):
    scores = np.dot(Q, K.T)
    scores = scores / np.sqrt(K.shape[-1])
    weights = soft(scores, axis=-1)
    return np.dot(weights, V)
""",
        """
def simple_attention(Q, K, V):
    rows = []
    for q in Q:
        powers = [math.exp(sum(a * b for a, b in zip(q, k)) / math.sqrt(len(q))) for k in K]
        rows.append([sum(p * v[j] for p, v in zip(powers, V)) / sum(powers) for j in range(V.shape[1])])
    return rows
""",
        """
def simple_attention(V, K, Q):
    return np.einsum("qk,kd->qd", soft(np.einsum("qd,kd->qk", Q, K) * Q.shape[1] ** -0.5), V)
""",
    ],
    "batched_attention": [
        """
def batched_attention(q, k, v):
    scores = np.einsum("bqd,bkd->bqk", q, k) / np.sqrt(q.shape[-1])
    return soft(scores) @ v
""",
        """
def batched_attention(q, k, v):
    return np.stack([soft(a @ b.T / len(a[0]) ** 0.5) @ c for a, b, c in zip(q, k, v)])
""",
    ],
    "additive_scores": [
        """
def additive_scores(q, k, W_q, W_k, v):
    return np.tanh((q @ W_q.T)[:, None, :] + (k @ W_k.T)[None, :, :]) @ v
""",
        """
def additive_scores(q, k, W_q, W_k, v):
    return [[float(v @ np.tanh(W_q @ a + W_k @ b)) for b in k] for a in q]
""",
    ],
    "bilinear_scores": [
        "def bilinear_scores(q, k, W):\n    return q @ W @ k.T\n",
        "def bilinear_scores(q, k, W):\n    return np.einsum('id,de,je->ij', q, W, k)\n",
        "def bilinear_scores(q, k, W):\n    return [[a @ (W @ b) for b in k] for a in q]\n",
    ],
    "padding_mask": [
        """
def create_padding_mask(seq, pad_token):
    return np.where(seq == pad_token, -np.inf, 0.0)[:, np.newaxis, :]
""",
        """
def create_padding_mask(seq, pad_token):
    return [[[-math.inf if token == pad_token else 0 for token in row]] for row in seq]
""",
    ],
    "causal_mask": [
        "def create_causal_mask(size):\n    return np.triu(np.full((size, size), -np.inf), k=1)\n",
        """
def create_causal_mask(size):
    return [[0 if j <= i else float("-inf") for j in range(size)] for i in range(size)]
""",
    ],
    "window_mask": [
        """
def window_mask(size, window):
    i, j = np.indices((size, size))
    return (i - j >= 0) & (i - j < window)
""",
        """
def window_mask(size, window):
    return [[int(max(0, i - window + 1) <= j <= i) for j in range(size)] for i in range(size)]
""",
        """
def window_mask(size, window):
    ones = np.ones((size, size))
    return np.tril(ones) - np.tril(ones, -window)
""",
    ],
    "masked_attention": [
        """
def masked_attention(q, k, v, mask):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v
""",
        """
def masked_attention(q, k, v, mask):
    output = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        keys = np.flatnonzero(mask[i])
        if len(keys):
            output[i] = soft(k[keys] @ q[i] / math.sqrt(len(q[i]))) @ v[keys]
    return output
""",
        """
def masked_attention(q, k, v, mask):
    w = soft(np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -1e30))
    return np.nan_to_num(w * mask.any(-1, keepdims=True)) @ v
""",
    ],
    "self_attention": [
        """
def self_attention(x, W_q, W_k, W_v):
    q, k, v = x @ W_q.T, x @ W_k.T, x @ W_v.T
    return soft(q @ k.T / np.sqrt(q.shape[-1])) @ v
""",
        """
def self_attention(x, W_q, W_k, W_v):
    q, k, v = ([W @ row for row in x] for W in (W_q, W_k, W_v))
    return [soft(np.array([a @ b for b in k]) / math.sqrt(len(a))) @ np.array(v) for a in q]
""",
    ],
    "cross_attention": [
        """
def cross_attention(decoder, encoder, W_q, W_k, W_v):
    q = decoder @ W_q.T
    k = encoder @ W_k.T
    v = encoder @ W_v.T
    return soft(q @ k.T / np.sqrt(k.shape[-1])) @ v
""",
        """
def cross_attention(decoder, encoder, W_q, W_k, W_v):
    scores = np.einsum("tm,dm,de,se->ts", decoder, W_q, W_k, encoder) / len(W_q) ** 0.5
    return soft(scores) @ encoder @ W_v.T
""",
    ],
    "split_heads": [
        """
def split_heads(x, num_heads):
    b, n, m = x.shape
    return x.reshape(b, n, num_heads, m // num_heads).transpose(0, 2, 1, 3)
""",
        """
def split_heads(x, num_heads):
    d = x.shape[-1] // num_heads
    return np.stack([x[..., i * d:(i + 1) * d] for i in range(num_heads)], axis=1)
""",
    ],
    "merge_heads": [
        """
def merge_heads(x):
    b, h, n, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, n, h * d)
""",
        "def merge_heads(x):\n    return np.concatenate([x[:, i] for i in range(x.shape[1])], axis=-1)\n",
        """
def merge_heads(x):
    return [[[f for head in sequence for f in head[i]] for i in range(x.shape[2])] for sequence in x]
""",
    ],
    "multi_head_attention": [
        """
def multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads):
    b, n, m = x.shape
    d = m // num_heads
    def split(y):
        return y.reshape(b, n, num_heads, d).swapaxes(1, 2)
    q, k, v = split(x @ W_q.T), split(x @ W_k.T), split(x @ W_v.T)
    weights = soft(q @ k.swapaxes(-1, -2) / np.sqrt(d), axis=-1)
    joined = (weights @ v).swapaxes(1, 2).reshape(b, n, m)
    return joined @ W_o.T
""",
        """
def multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads):
    d = x.shape[-1] // num_heads
    total = 0
    for h in range(num_heads):
        part = slice(h * d, (h + 1) * d)
        q, k, v = x @ W_q[part].T, x @ W_k[part].T, x @ W_v[part].T
        weights = soft(np.einsum("bqd,bkd->bqk", q, k) / math.sqrt(d))
        total = total + weights @ v @ W_o[:, part].T
    return total
""",
    ],
    "sinusoidal_positions": [
        """
def sinusoidal_positions(length, width):
    table = np.zeros((length, width))
    position = np.arange(length)[:, None]
    rate = np.exp(np.arange(0, width, 2) * (-np.log(10000.0) / width))
    table[:, 0::2] = np.sin(position * rate)
    table[:, 1::2] = np.cos(position * rate)[:, : width // 2]
    return table
""",
        """
def sinusoidal_positions(length, width):
    def number(p, j):
        angle = p / 10000 ** (2 * (j // 2) / width)
        return math.cos(angle) if j % 2 else math.sin(angle)
    return [[number(p, j) for j in range(width)] for p in range(length)]
""",
    ],
    "rotary_positions": [
        """
def rotary(x):
    n, d = x.shape
    angle = np.arange(n)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    a, b = x[:, 0::2], x[:, 1::2]
    out = np.empty_like(x)
    out[:, 0::2] = a * np.cos(angle) - b * np.sin(angle)
    out[:, 1::2] = a * np.sin(angle) + b * np.cos(angle)
    return out
""",
        """
def rotary(x):
    n, d = x.shape
    z = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * np.outer(np.arange(n), 10000.0 ** -(np.arange(0, d, 2) / d)))
    return np.stack([z.real, z.imag], axis=-1).reshape(n, d)
""",
    ],
    "layer_norm": [
        """
def layer_norm(x, gain, bias, eps):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * gain + bias
""",
        """
def layer_norm(x, gain, bias, eps):
    rows = []
    for row in x:
        mean = sum(row) / len(row)
        spread = sum((n - mean) ** 2 for n in row) / len(row)
        rows.append([g * (n - mean) * (spread + eps) ** -0.5 + b for n, g, b in zip(row, gain, bias)])
    return rows
""",
    ],
    "pre_norm_block": [
        """
def feed_forward_block(x, W_1, W_2):
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    y = np.maximum(y @ W_1.T, 0)
    return x + y @ W_2.T
""",
        """
def feed_forward_block(x, W_1, W_2):
    def row(r):
        y = (r - r.mean()) / r.std()
        h = W_1 @ y
        return r + W_2 @ (h * (h > 0))
    return [row(r) for r in x]
""",
    ],
    "softmax_gradient": [
        """
def softmax_gradient(weights, grad):
    total = (weights * grad).sum(-1, keepdims=True)
    return weights * (grad - total)
""",
        """
def softmax_gradient(weights, grad):
    return [(np.diag(w) - np.outer(w, w)) @ g for w, g in zip(weights, grad)]
""",
    ],
    "next_token_loss": [
        """
def next_token_loss(logits, tokens):
    log_probs = np.log(soft(logits))
    rows, targets = log_probs[:-1], tokens[1:]
    return -np.mean(rows[np.arange(len(targets)), targets])
""",
        """
def next_token_loss(logits, tokens):
    losses = []
    for i in range(len(tokens) - 1):
        losses.append(np.logaddexp.reduce(logits[i]) - logits[i][tokens[i + 1]])
    return sum(losses) / len(losses)
""",
    ],
    "label_smoothing": [
        """
def smoothed_loss(logits, targets, epsilon):
    log_probs = np.log(soft(logits))
    gold = log_probs[np.arange(len(targets)), targets]
    uniform = log_probs.mean(-1)
    return -np.mean((1 - epsilon) * gold + epsilon * uniform)
""",
        """
def smoothed_loss(logits, targets, epsilon):
    goal = np.full(logits.shape, epsilon / logits.shape[1])
    goal[range(len(targets)), targets] += 1 - epsilon
    return np.array([-(goal * np.log(soft(logits))).sum() / len(targets)])
""",
    ],
    "warmup": [
        """
def learning_rate(step, warmup, total, peak):
    rise = step / warmup
    fall = np.maximum(total - step, 0) / (total - warmup)
    return peak * np.minimum(rise, fall)
""",
        """
def learning_rate(step, warmup, total, peak):
    def rate(s):
        if s < warmup:
            return peak * s / warmup
        return peak * max(0, total - s) / (total - warmup)
    return [rate(s) for s in step]
""",
        """
def learning_rate(step, warmup, total, peak):
    return np.interp(step, [0, warmup, total], [0, peak, 0])
""",
    ],
    "beam_step": [
        """
def beam_step(scores, log_probs, width):
    totals = scores[:, None] + log_probs
    best = np.argsort(-totals.ravel())[:width]
    return best // log_probs.shape[1], best % log_probs.shape[1]
""",
        """
def beam_step(scores, log_probs, width):
    found = [(s + p, b, t) for b, s in enumerate(scores) for t, p in enumerate(log_probs[b])]
    found = sorted(found, reverse=True)[:width]
    return [b for _, b, _ in found], [t for _, _, t in found]
""",
    ],
}

# The exercise, what is replaced in its first solution, what replaces it, and the mistakes to be named.
EDITS: list[tuple[str, str, str, set[str]]] = [
    ("softmax", "x = x - np.max(x, axis=-1, keepdims=True)", "", {"no_shift"}),
    ("softmax", "np.max(x, axis=-1, keepdims=True)", "np.max(x)", {"shift_by_highest_of_all"}),
    ("softmax", "np.max(x, axis=-1, keepdims=True)", "np.mean(x, axis=-1, keepdims=True)", {"shift_by_mean"}),
    (
        "softmax",
        "np.max(x, axis=-1, keepdims=True)",
        "np.min(x, axis=-1, keepdims=True)",
        {"shift_by_lowest"},
    ),
    ("softmax", "np.max(x, axis=-1, keepdims=True)", "x[..., :1]", {"shift_by_first"}),
    ("softmax", "np.sum(e, axis=-1, keepdims=True)", "np.sum(e)", {"sum_over_all"}),
    ("softmax", "np.sum(e, axis=-1, keepdims=True)", "np.sum(e, axis=0)", {"sum_over_first_axis"}),
    ("softmax", "np.max(x, axis=-1, keepdims=True)", "np.max(x, axis=-1)", {"highest_without_keepdims"}),
    ("softmax", "np.sum(e, axis=-1, keepdims=True)", "np.sum(e, axis=-1)", {"sum_without_keepdims"}),
    (
        "softmax",
        "x = x - np.max(x, axis=-1, keepdims=True)\n    e = np.exp(x)",
        "y, e = np.exp(x - np.max(x, axis=-1, keepdims=True)), np.exp(x)\n    return y / e.sum(-1)[..., None]",
        {"sum_not_shifted"},
    ),
    ("scores", " / np.sqrt(d)", "", {"no_scale"}),
    ("scores", "np.sqrt(d)", "d", {"divided_by_d"}),
    ("scores", "q.shape[0]", "k.shape[0]", {"root_of_keys"}),
    ("worked_example", "[0.4011, 0.1978, 0.4011], [16.0445, 3.9555]", "[0.5, 0, 0.5], [20, 0]", {"no_exp"}),
    (
        "worked_example",
        "[0.4011, 0.1978, 0.4011], [16.0445, 3.9555]",
        "[0.4223, 0.1554, 0.4223], [16.89, 3.11]",
        {"no_scale"},
    ),
    ("weights_by_hand", "[0.2312, 0.6285, 0.1402], 15.584", "[0.2857, 0.5714, 0.1429], 15.0", {"no_exp"}),
    ("weights_by_hand", "15.584", "35", {"sum_of_values"}),
    ("simple_attention", "    scores = scores / np.sqrt(K.shape[-1])\n", "", {"no_scale"}),
    ("simple_attention", "axis=-1", "axis=0", {"over_queries"}),
    ("simple_attention", "soft(scores, axis=-1)", "scores / scores.sum(-1, keepdims=True)", {"no_exp"}),
    ("simple_attention", "np.dot(Q, K.T)", "np.dot(K, Q.T)", {"swapped_q_k"}),
    ("simple_attention", "np.dot(weights, V)", "np.dot(weights, K)", {"keys_as_values"}),
    ("simple_attention", "K.T", "K.reshape(K.shape[::-1])", {"keys_reshaped"}),
    ("simple_attention", "np.sqrt(K.shape[-1])", "np.sqrt(V.shape[-1])", {"root_of_value_width"}),
    (
        "simple_attention",
        "soft(scores, axis=-1)",
        "np.exp(scores) / np.exp(scores).sum(axis=-1)",
        {"no_keepdims"},
    ),
    (
        "simple_attention",
        "weights = soft(scores, axis=-1)",
        "e = np.exp(scores - scores.max(axis=-1))\n    weights = e / e.sum(axis=-1)",
        {"no_keepdims_at_all"},
    ),
    ("batched_attention", "bqd,bkd->bqk", "bqd,bkd->qk", {"scores_summed_over_batch"}),
    ("batched_attention", "soft(scores)", "(np.exp(scores) / np.exp(scores).sum(-1))", {"no_keepdims"}),
    ("batched_attention", "soft(scores)", "soft(scores, axis=0)", {"over_batch"}),
    ("batched_attention", "soft(scores) @ v", "soft(scores) @ v[0]", {"values_of_the_first"}),
    ("additive_scores", "(q @ W_q.T)[:, None, :] + ", "0 * q[:, None, :1] + ", {"query_forgotten"}),
    ("additive_scores", "np.tanh", "", {"no_tanh"}),
    (
        "additive_scores",
        "(q @ W_q.T)[:, None, :] + (k @ W_k.T)[None, :, :]",
        "q @ W_q.T + k @ W_k.T",
        {"only_same_places"},
    ),
    ("bilinear_scores", "q @ W @ k.T", "q @ W.T @ k.T", {"matrix_transposed"}),
    ("bilinear_scores", "q @ W @ k.T", "q @ W @ k.T / q.shape[1] ** 0.5", {"scaled_by_root"}),
    ("padding_mask", "==", "!=", {"inverted"}),
    ("padding_mask", "[:, np.newaxis, :]", "", {"no_query_axis"}),
    (
        "padding_mask",
        "np.where(seq == pad_token, -np.inf, 0.0)",
        "((seq == pad_token) * -np.inf)",
        {"zero_times_infinity"},
    ),
    ("causal_mask", "k=1", "k=0", {"hides_itself"}),
    (
        "causal_mask",
        "np.triu(np.full((size, size), -np.inf), k=1)",
        "np.tril(np.ones((size, size)))",
        {"one_keeps"},
    ),
    ("causal_mask", "-np.inf", "-1e9", {"finite_number"}),
    ("causal_mask", "-np.inf", "np.finfo(np.float32).min", {"finite_number"}),
    ("padding_mask", "-np.inf", "-1e4", {"finite_number"}),
    ("window_mask", "< window", "<= window", {"one_too_many"}),
    (
        "window_mask",
        "(i - j >= 0) & (i - j < window)",
        "np.where((i - j >= 0) & (i - j < window), 0.0, -np.inf)",
        {"additive"},
    ),
    (
        "window_mask",
        "(i - j >= 0) & (i - j < window)",
        "[[j in range(size)[i - window + 1 : i + 1] for j in range(size)] for i in range(size)]",
        {"negative_start"},
    ),
    ("window_mask", "(i - j >= 0) & (i - j < window)", "abs(i - j) < window", {"both_sides"}),
    (
        "masked_attention",
        "np.where(mask, scores, -np.inf)",
        "np.where(mask, -np.inf, scores)",
        {"mask_inverted"},
    ),
    (
        "masked_attention",
        "np.where(mask, scores, -np.inf)",
        "np.where(mask, scores, -1e9)",
        {"empty_rows_uniform"},
    ),
    *(
        (
            "masked_attention",
            "np.where(mask, scores, -np.inf)",
            f"scores + np.where(mask, 0, {number})",
            {name},
        )
        for number, name in (
            ("-1e9", "large_number_added"),
            ("-1e4", "large_number_added"),
            ("-100", "large_number_added"),
            ("-10", "minus_ten"),
        )
    ),
    ("masked_attention", "np.where(total == 0, 1, total)", "total", {"empty_rows_nan"}),
    ("masked_attention", "    scores = np.where(mask, scores, -np.inf)\n", "", {"mask_ignored"}),
    ("self_attention", "x @ W_k.T", "x @ W_q.T", {"same_matrix_for_keys"}),
    ("self_attention", "q.shape[-1]", "x.shape[-1]", {"root_of_model_width"}),
    ("self_attention", "q.shape[-1]", "len(x)", {"root_of_keys"}),
    (
        "self_attention",
        "x @ W_q.T, x @ W_k.T, x @ W_v.T",
        "x @ W_q, x @ W_k, x @ W_v",
        {"matrices_transposed"},
    ),
    ("cross_attention", "q = decoder", "q = encoder", {"queries_from_encoder"}),
    ("cross_attention", "v = encoder", "v = decoder", {"values_from_decoder"}),
    ("split_heads", ".transpose(0, 2, 1, 3)", "", {"axes_not_swapped"}),
    (
        "split_heads",
        "x.reshape(b, n, num_heads, m // num_heads).transpose(0, 2, 1, 3)",
        "x.reshape(b, num_heads, n, m // num_heads)",
        {"reshaped_to_heads"},
    ),
    ("merge_heads", ".transpose(0, 2, 1, 3)", "", {"axes_not_swapped"}),
    ("merge_heads", "x.transpose(0, 2, 1, 3).reshape(b, n, h * d)", "x.mean(1)", {"mean_of_heads"}),
    (
        "multi_head_attention",
        "y.reshape(b, n, num_heads, d).swapaxes(1, 2)",
        "y.reshape(b, num_heads, n, d)",
        {"reshaped_to_heads"},
    ),
    ("multi_head_attention", "np.sqrt(d)", "np.sqrt(m)", {"root_of_model_width"}),
    ("multi_head_attention", "np.sqrt(d)", "np.sqrt(n)", {"root_of_keys"}),
    ("multi_head_attention", "split(x @ W_v.T)", "split(x)", {"values_not_projected"}),
    ("multi_head_attention", "(weights @ v).swapaxes(1, 2)", "(weights @ v)", {"heads_not_swapped_back"}),
    ("multi_head_attention", "axis=-1", "axis=1", {"over_heads"}),
    ("multi_head_attention", "joined @ W_o.T", "joined", {"no_output_matrix"}),
    ("sinusoidal_positions", "np.arange(length)", "np.arange(1, length + 1)", {"from_one"}),
    (
        "sinusoidal_positions",
        "np.arange(0, width, 2) * (",
        "np.arange(0, width, 2) * (0.5 * ",
        {"half_exponent"},
    ),
    ("rotary_positions", "np.cos(angle) - b", "np.cos(angle) + b", {"first_with_plus"}),
    ("rotary_positions", "np.arange(n)", "np.arange(1, n + 1)", {"from_one"}),
    (
        "layer_norm",
        "x.mean(-1, keepdims=True)\n    var = x.var(-1, keepdims=True)",
        "x.mean(0)\n    var = x.var(0)",
        {"over_positions"},
    ),
    ("layer_norm", "x.var(-1, keepdims=True)", "x.var(-1, keepdims=True, ddof=1)", {"sample_variance"}),
    ("layer_norm", "np.sqrt(var + eps)", "(np.sqrt(var) + eps)", {"eps_outside"}),
    (
        "layer_norm",
        "x.mean(-1, keepdims=True)\n    var = x.var(-1, keepdims=True)",
        "x.mean(-1)\n    var = x.var(-1)",
        {"no_keepdims"},
    ),
    ("pre_norm_block", "x + y @ W_2.T", "y @ W_2.T", {"no_residual"}),
    ("pre_norm_block", "np.maximum(y @ W_1.T, 0)", "y @ W_1.T", {"no_relu"}),
    (
        "pre_norm_block",
        "np.maximum(y @ W_1.T, 0)",
        "y @ W_1.T\n    y = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))",
        {"gelu_by_tanh"},
    ),
    ("softmax_gradient", "weights * (grad - total)", "weights * grad", {"no_total"}),
    ("softmax_gradient", "weights * (grad - total)", "weights * grad - total", {"sum_not_weighted"}),
    ("next_token_loss", "log_probs[:-1], tokens[1:]", "log_probs, tokens", {"not_shifted"}),
    ("next_token_loss", "np.log(", "np.log10(", {"base_ten"}),
    ("next_token_loss", "log_probs[:-1], tokens[1:]", "log_probs, np.roll(tokens, -1)", {"last_token_wraps"}),
    (
        "next_token_loss",
        "np.mean(rows[np.arange(len(targets)), targets])",
        "np.sum(rows[np.arange(len(targets)), targets])",
        {"summed"},
    ),
    ("label_smoothing", "(1 - epsilon) * gold", "gold", {"target_keeps_all"}),
    ("label_smoothing", "log_probs.mean(-1)", "log_probs.sum(-1)", {"sum_over_vocabulary"}),
    ("warmup", "np.maximum(total - step, 0)", "(total - step)", {"negative"}),
    ("warmup", "(total - warmup)", "total", {"fall_from_start"}),
    ("beam_step", "scores[:, None] + log_probs", "log_probs", {"scores_ignored"}),
    ("beam_step", "-totals.ravel()", "totals.ravel()", {"worst"}),
    ("beam_step", "[:width]", "[: len(scores)]", {"width_ignored"}),
    (
        "beam_step",
        "best // log_probs.shape[1], best % log_probs.shape[1]",
        "best // len(scores), best % len(scores)",
        {"divided_by_beams", "remainder_of_beams"},
    ),
    # Two mistakes at once.
    (
        "simple_attention",
        "scores = scores / np.sqrt(K.shape[-1])\n    weights = soft(scores, axis=-1)",
        "weights = soft(scores, axis=0)",
        {"no_scale", "over_queries"},
    ),
    (
        "multi_head_attention",
        "np.sqrt(d), axis=-1)\n    joined = (weights @ v).swapaxes(1, 2)",
        "np.sqrt(m), axis=-1)\n    joined = (weights @ v)",
        {"root_of_model_width", "heads_not_swapped_back"},
    ),
    (
        "next_token_loss",
        "log_probs[:-1], tokens[1:]\n    return -np.mean",
        "log_probs, tokens\n    return -np.sum",
        {"not_shifted", "summed"},
    ),
    (
        "sinusoidal_positions",
        "np.arange(length)[:, None]\n    rate = np.exp(np.arange(0, width, 2) * (-np.log(10000.0)",
        "np.arange(1, length + 1)[:, None]\n    rate = np.exp(np.arange(0, width, 2) * (-np.log(1000.0)",
        {"from_one", "base_1000"},
    ),
    ("layer_norm", "np.sqrt(var + eps) * gain + bias", "(var + eps) * gain", {"no_root", "no_bias"}),
]
