"""Tests of what is said of usual slips, of which Python says only that something failed."""

import pytest

from support.exercise_files import in_both_languages, write


@pytest.mark.parametrize("start", ["", "\n\n\n"])
def test_a_file_of_another_encoding_is_to_be_saved_as_utf8(start, tmp_path):
    path = tmp_path / "my.py"
    path.write_bytes(f"{start}# 注意力\ndef softmax(x):\n    return x\n".encode("gbk"))
    _, english, chinese = in_both_languages("softmax", path)
    assert "The file is not encoded as UTF-8. Save it as UTF-8 in your editor." in english
    assert "请在编辑器中另存为 UTF-8。" in chinese


@pytest.mark.parametrize(
    ("name", "source", "english", "chinese"),
    [
        (
            "worked_example",
            "def worked_example():\n    return [16.04, 3.96], [0.4, 0.2, 0.4]\n",
            "Your results are right, but in another order. Return weights, output.",
            "你的结果是对的，但顺序不对。请返回 weights, output。",
        ),
        (
            "beam_step",
            """
            def beam_step(scores, log_probs, width):
                beams, size = log_probs.shape
                all_of_them = [(scores[b] + log_probs[b, t], b, t) for b in range(beams) for t in range(size)]
                return [(b, t) for _, b, t in sorted(all_of_them, reverse=True)[:width]]
            """,
            "Each of yours has 2 parts, so rows and columns are swapped: return 2 arrays",
            "你的每个结果都有 2 个部分，行和列交换了：应返回 2 个数组",
        ),
        (
            "softmax",
            """
            import numpy as np
            def softmax(x):
                e = np.exp(x - x.max(axis=1, keepdims=True))
                return e / e.sum(axis=1, keepdims=True)
            """,
            "The last axis of any array is axis=-1.",
            "任何数组的最后一个轴都是 axis=-1。",
        ),
        (
            "scores",
            "def scores(q, k):\n    return k @ q // len(q) ** 0.5\n",
            "The numbers are right, but cut to whole numbers.",
            "数值是对的，但只剩整数部分。",
        ),
        (
            "warmup",
            """
            def learning_rate(step, warmup, total, peak):
                if step < warmup:
                    return peak * step / warmup
                return max(0, peak * (total - step) / (total - warmup))
            """,
            "if, min and max need one number, and this is an array.",
            "if、min 和 max 需要一个数，而这里是数组。",
        ),
        (
            "masked_attention",
            """
            import numpy as np
            def masked_attention(q, k, v, mask):
                return np.where(not mask, -np.inf, q @ k.T)
            """,
            "Write ~, & and | between arrays, such as ~mask.",
            "数组之间应写 ~、& 和 |，例如 ~mask。",
        ),
        (
            "split_heads",
            "def split_heads(x, num_heads):\n"
            "    return x.reshape(*x.shape[:2], num_heads, x.shape[-1] / num_heads).swapaxes(1, 2)\n",
            "/ gives a float even if nothing remains: divide with //.",
            "即使能整除，/ 也得到浮点数：应使用 //。",
        ),
        (
            "softmax",
            "def softmax(x):\n    e = np.exp(x)\n    return e / e.sum(-1, keepdims=True)\n",
            "Add `import numpy as np` at the top of the file.",
            "在文件开头加上 `import numpy as np`。",
        ),
        (
            "softmax",
            "zero = np.zeros(3)\ndef softmax(x):\n    return x\n",
            "Add `import numpy as np` at the top of the file.",
            "在文件开头加上 `import numpy as np`。",
        ),
        (
            "softmax",
            "import numpy as np\ndef softmax(x):\n    return np.exp(x) / np.exp(x).sum(-1, keepdim=True)\n",
            "NumPy has keepdims=True and axis=-1.",
            "NumPy 中是 keepdims=True 和 axis=-1。",
        ),
    ],
    ids=[
        "results swapped",
        "list of pairs",
        "axis 1",
        "whole numbers",
        "if on an array",
        "not on an array",
        "float as a size",
        "no import",
        "no import at the top",
        "keepdim",
    ],
)
def test_usual_slips_are_told_in_words(name, source, english, chinese, tmp_path):
    _, in_english, in_chinese = in_both_languages(name, write(tmp_path, source))
    assert english in in_english
    assert chinese in in_chinese
