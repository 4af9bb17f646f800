"""Tests that the names of document 003 work as written, with corrected numbers."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from support.paths import ROOT

SEEDS = Path(os.environ.get("REGARD_SEEDS") or ROOT.parent / "shared" / "seeds")


def test_the_worked_example_has_its_numbers():
    from deep_learning.activations import softmax
    from deep_learning.attention import scaled_dot_product_attention

    Q = np.array([[1.0, 0.0]])
    K = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    V = np.array([[10.0, 0.0], [0.0, 20.0], [30.0, 0.0]])
    weights = softmax(Q @ K.T / np.sqrt(2), axis=-1)
    np.testing.assert_allclose(weights, [[0.4011, 0.1978, 0.4011]], atol=5e-5)
    np.testing.assert_allclose(weights @ V, [[16.0445, 3.9555]], atol=5e-5)
    output, found = scaled_dot_product_attention(Q, K, V)
    np.testing.assert_allclose(found, weights)
    np.testing.assert_allclose(output, [[16.0445, 3.9555]], atol=5e-5)


def test_the_first_exercise_has_its_numbers():
    from deep_learning.attention import scaled_dot_product_attention

    Q, K, V = [[1.0]], [[1.0], [2.0], [0.5]], [[10.0], [20.0], [5.0]]
    output, weights = scaled_dot_product_attention(Q, K, V)
    assert output[0, 0] == pytest.approx(15.584, abs=5e-4)
    np.testing.assert_allclose(weights, [[0.2312, 0.6285, 0.1402]], atol=1e-4)


def test_the_second_exercise_has_its_numbers():
    from deep_learning.attention import scaled_dot_product_attention

    Q, K, V = [[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[5.0, 0.0], [0.0, 10.0]]
    output, _ = scaled_dot_product_attention(Q, K, V)
    # The softmax of two numbers is the sigmoid of their difference.
    share = 1 / (1 + np.exp(-(0.5**0.5)))
    np.testing.assert_allclose(output, [[5 * share, 10 * (1 - share)]])


def test_shapes_and_masks_of_the_document(capsys):
    from deep_learning.attention import MultiHeadAttention, create_causal_mask, create_padding_mask

    layer = MultiHeadAttention(d_model=128, num_heads=8)
    x = np.random.default_rng(0).normal(size=(2, 10, 128))
    assert layer.forward(x, x, x).shape == (2, 10, 128)
    assert layer.attention_weights(x, x).shape == (2, 8, 10, 10)
    assert layer.d_k == 16
    print(create_causal_mask(4))
    assert capsys.readouterr().out.splitlines() == [
        "[[  0. -inf -inf -inf]",
        " [  0.   0. -inf -inf]",
        " [  0.   0.   0. -inf]",
        " [  0.   0.   0.   0.]]",
    ]
    assert create_padding_mask(np.array([[1, 2, 3, 0, 0], [4, 5, 0, 0, 0]]), pad_token=0).shape == (2, 1, 5)


def test_the_layer_takes_both_masks_added_up():
    from deep_learning.attention import MultiHeadAttention, create_causal_mask, create_padding_mask

    tokens = np.array([[1, 2, 3, 0, 0], [4, 5, 0, 0, 0]])
    mask = create_causal_mask(5) + create_padding_mask(tokens)  # (b,q,k)
    x = np.random.default_rng(0).normal(size=(2, 5, 6))
    weights = MultiHeadAttention(6, 3, seed=0).attention_weights(x, x, mask)
    expected = np.tril(np.ones((5, 5), bool)) & (tokens != 0)[:, None, :]
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(expected[:, None], (2, 3, 5, 5)))


def blocks():
    """The Python blocks of the document, in order."""
    (document,) = SEEDS.glob("003*.md")
    return re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.S)


@pytest.mark.usefixtures("fonts")
@pytest.mark.skipif(not SEEDS.is_dir(), reason=f"the source documents are not here (REGARD_SEEDS or {SEEDS})")
def test_the_code_of_the_document_runs(capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    names, broken = {}, []
    for number, block in enumerate(blocks()):
        try:
            code = compile(block, f"block {number} of document 003", "exec")
        except SyntaxError:
            broken.append(number)
            continue
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*non-interactive.*")  # plt.show() without a screen
            exec(code, names)
    # One block is pseudo-code, the answer of exercise 1.
    assert ["15.57" in blocks()[number] for number in broken] == [True]
    printed = capsys.readouterr().out
    assert "[[0.40111209 0.19777581 0.40111209]]" in printed
    assert re.search(r"\[\[16\.0444\d* +3\.9555\d*\]\]", printed)
    assert "(2, 1, 5)" in printed
    np.testing.assert_allclose(
        names["simple_attention"](np.eye(2)[:1], np.eye(2), np.diag([5.0, 10.0])),
        [[3.3488, 3.3024]],
        atol=1e-4,
    )
    matplotlib.pyplot.close("all")


@pytest.mark.usefixtures("fonts")
def test_the_demo_runs_and_saves_its_figures(tmp_path):
    pytest.importorskip("matplotlib")
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")
    }
    path = [os.environ.get("PYTHONPATH", ""), str(ROOT / "src")]
    environment |= {"MPLBACKEND": "Agg", "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "attention_demo.py"), "--out", str(tmp_path / "new")],
        capture_output=True, text=True, cwd=tmp_path, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    saved = [
        Path(line.removeprefix("saved ")) for line in done.stdout.splitlines() if line.startswith("saved ")
    ]
    assert len(saved) == 2
    for path in saved:
        assert path.read_bytes().startswith(b"\x89PNG")
    for part in ("1. ", "2. ", "3. ", "4. ", "5. "):
        assert f"\n{part}" in done.stdout
    assert "[0.4011, 0.1978, 0.4011]" in done.stdout
    assert "[16.0445, 3.9555]" in done.stdout
    assert "'it' attends most to 'cat'" in done.stdout
    assert "weight on later words: 0.0" in done.stdout
