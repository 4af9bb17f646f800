"""Tests that every error names the argument, the expected and the given value, and the fix."""

import functools
import importlib.metadata
import operator
import re
import warnings

import numpy as np
import pytest
import torch

import regard
from regard import (
    Mask,
    attention,
    attention_weights,
    blocks,
    causal,
    errors,
    global_tokens,
    padding,
    positions,
    scores,
    window,
)
from regard.errors import (
    ArgumentError,
    DtypeError,
    MaskError,
    MissingExtraError,
    RegardError,
    ShapeError,
    UnknownArgumentError,
    UnknownNameError,
    install_command,
    option,
    renamed,
)

B, H, Q, K, D, E = 2, 3, 5, 7, 11, 13


def tensors(q=(B, H, Q, D), k=(B, H, K, D), v=(B, H, K, E)):
    return torch.randn(q), torch.randn(k), torch.randn(v)


def call(q=None, k=None, v=None, **options):
    made = tensors()
    given = (q, k, v)
    return attention(*(made[i] if x is None else x for i, x in enumerate(given)), **options)


CASES = {
    "width": (
        lambda: call(k=torch.randn(B, H, K, 4)),
        ShapeError,
        "k: width 4, but q has 11: the dot scores need equal widths; use scores.Bilinear or scores.Additive",
    ),
    "score width": (
        lambda: call(score=scores.Bilinear(2, D)),
        ShapeError,
        "q: width 11, but the score was made for 2",
    ),
    "additive width": (
        lambda: call(score=scores.Additive(D, 2, 3)),
        ShapeError,
        "k: width 11, but the score was made for 2",
    ),
    "heads": (
        lambda: call(k=torch.randn(B, 2, K, D), v=torch.randn(B, 2, K, E)),
        ShapeError,
        "k: 2 heads do not divide the 3 heads of q: give k and v 1 head, h heads, or a divisor of h",
    ),
    "heads of v": (lambda: call(v=torch.randn(B, 1, K, E)), ShapeError, "v: 1 heads, but k has 3"),
    "batch": (
        lambda: call(k=torch.randn(4, H, K, D)),
        ShapeError,
        "k: batch of 4, but q has 2: q is (2,3,5,11), k is (4,3,7,11)",
    ),
    "lengths": (
        lambda: call(v=torch.randn(B, H, 6, E)),
        ShapeError,
        "v: 6 values for 7 keys: k is (2,3,7,11), v is (2,3,6,13)",
    ),
    "axes": (
        lambda: call(k=torch.randn(K, D)),
        ShapeError,
        "k: 2 axes, but q has 4: q is (2,3,5,11), k is (7,11)",
    ),
    "too few axes": (
        lambda: call(torch.randn(3)),
        ShapeError,
        "q: expected (n,d), (b,n,d) or (b,h,n,d), got (3)",
    ),
    "integers": (
        lambda: call(torch.ones(B, H, Q, D, dtype=torch.long)),
        DtypeError,
        "q: expected a floating dtype, got torch.int64: use q.float()",
    ),
    "not a tensor": (
        lambda: attention([[1.0]], torch.ones(1, 1), torch.ones(1, 1)),
        DtypeError,
        "q: expected a torch.Tensor, got list: use torch.as_tensor(...)",
    ),
    "dtypes": (
        lambda: call(k=torch.randn(B, H, K, D).double()),
        DtypeError,
        "k: torch.float64, but q is torch.float32: use k.to(q.dtype)",
    ),
    "devices": (
        lambda: call(k=torch.randn(B, H, K, D, device="meta")),
        DtypeError,
        "k: on meta, but q is on cpu: use k.to(q.device)",
    ),
    "mask axes": (
        lambda: call(mask=torch.ones(2, 5, 6, dtype=torch.bool)),
        ShapeError,
        "mask: cannot broadcast (2,5,6) to (b,h,q,k) = (2,3,5,7): 6 keys given, 7 in k",
    ),
    "mask queries": (
        lambda: call(mask=torch.ones(4, 7, dtype=torch.bool)),
        ShapeError,
        "mask: cannot broadcast (4,7) to (b,h,q,k) = (2,3,5,7): 4 queries given, 5 in q",
    ),
    "padding given as a mask": (
        lambda: call(mask=torch.ones(B, K, dtype=torch.bool)),
        ShapeError,
        "two axes always mean (q,k): use regard.padding(mask) for (b,k)",
    ),
    "mask of one axis": (
        lambda: call(mask=torch.ones(K, dtype=torch.bool)),
        ShapeError,
        "mask: expected (q,k), (b,q,k), (b,1,k) or (b,h,q,k), got (7)",
    ),
    "float mask of zeros and ones": (
        lambda: call(mask=(torch.rand(Q, K) < 0.5).float()),
        MaskError,
        "mask: a float mask is added to the scores, but this one holds only zeros and ones: "
        "use mask.bool() to keep the ones, or bias=mask to add them",
    ),
    "NaN in a mask": (
        lambda: call(mask=torch.full((Q, K), float("nan"))),
        MaskError,
        "mask: found NaN or +inf: a float mask holds finite numbers and -inf only",
    ),
    "mask of another kind": (
        lambda: call(mask="causal"),
        DtypeError,
        "mask: expected a Mask or a tensor, got str",
    ),
    "truth of a mask": (
        lambda: causal() and padding([1]),
        MaskError,
        "mask: a mask has no truth value: combine masks with & | ~, not with and, or, not",
    ),
    "unknown score": (
        lambda: call(score="scaled_dott"),
        UnknownNameError,
        "score: unknown name 'scaled_dott': did you mean 'scaled_dot'? known are dot, scaled_dot, additive, bilinear",
    ),
    "score with parameters": (
        lambda: call(score="additive"),
        ArgumentError,
        "score: 'additive' has parameters of its own: pass regard.scores.Additive(query_dim, key_dim, hidden_dim)",
    ),
    "score of another kind": (
        lambda: call(score=3),
        DtypeError,
        "score: expected a name, a Score or a callable, got int",
    ),
    "callable of wrong shape": (
        lambda: call(score=lambda q, k: q.sum()),
        ShapeError,
        "score: the callable must return (b,h,q,k) = (2,3,5,7), got ()",
    ),
    "unprojected query": (
        lambda: scores.Additive(2, 3, 4, project_query=False),
        ArgumentError,
        "query_dim: an unprojected query must be hidden_dim = 4 wide, got 2",
    ),
    "negative left": (
        lambda: window(-3, 0),
        ArgumentError,
        "left: expected 0 or more keys, got -3: left=3 sees 3 keys to the left",
    ),
    "negative right": (lambda: window(3, -1), ArgumentError, "right: expected 0 or more keys, got -1"),
    "window of floats": (lambda: window(1.5, 0), DtypeError, "left: expected a whole number, got 1.5"),
    "causal offset": (
        lambda: causal(1.5),
        DtypeError,
        "offset: expected a whole number, got 1.5",
    ),
    "offsets for another batch": (
        lambda: call(mask=causal(torch.tensor([1, 2, 3]))),
        ShapeError,
        "offset: 3 offsets for a batch of 2",
    ),
    "lengths for another batch": (
        lambda: call(mask=padding([1, 2, 3])),
        ShapeError,
        "padding: made for a batch of 3, but q has 2",
    ),
    "length too long": (
        lambda: call(mask=padding([1, 8])),
        ShapeError,
        "padding: a length of 8, but k has only 7 keys",
    ),
    "negative length": (lambda: padding([1, -1]), MaskError, "keep: expected lengths of 0 or more, got -1"),
    "padding of floats": (
        lambda: padding(torch.ones(2, 3)),
        DtypeError,
        "keep: expected integer lengths or booleans, got torch.float32: use keep.bool(), True on real tokens",
    ),
    "padding of another length": (
        lambda: call(mask=padding(torch.ones(B, 6, dtype=torch.bool))),
        ShapeError,
        "padding: made for 6 keys, but k has 7",
    ),
    "blocks too few": (
        lambda: call(mask=blocks([[1]], size=4)),
        ShapeError,
        "layout: 1 x 1 blocks of 4 x 4 do not cover (q,k) = (5,7): give at least 2 x 2 blocks",
    ),
    "blocks of floats": (
        lambda: blocks([[0.5]], size=4),
        DtypeError,
        "layout: expected booleans or integers, got torch.float32: use layout.bool()",
    ),
    "blocks of no size": (
        lambda: blocks([[1]], size=0),
        ArgumentError,
        "size: expected a whole number of 1 or more, got 0",
    ),
    "blocks for other heads": (
        lambda: call(mask=blocks(torch.ones(2, 1, 1, dtype=torch.bool), size=8)),
        ShapeError,
        "layout: made for 2 heads, but there are 3",
    ),
    "global tokens outside": (
        lambda: call(mask=global_tokens([7])),
        ShapeError,
        "positions: global token 7, but there are only 7 keys",
    ),
    "global tokens negative": (
        lambda: global_tokens([-1]),
        ArgumentError,
        "positions: expected positions of 0 or more, got -1: count from the start",
    ),
    "additive with numbers": (
        lambda: Mask.from_additive(torch.ones(2, 2)),
        MaskError,
        "mask: expected only 0 and -inf, found other numbers: finite numbers are a bias: pass bias=...",
    ),
    "key padding mask of integers": (
        lambda: Mask.from_key_padding_mask(torch.ones(2, 3, dtype=torch.long)),
        MaskError,
        "mask: expected a boolean (b,k) tensor, got torch.int64: use mask.bool()",
    ),
    "numbers where masks combine": (
        lambda: causal() & torch.randn(Q, K),
        MaskError,
        "mask: finite numbers other than 0 are a bias, not a mask: pass them as bias=...",
    ),
    "bias axes": (
        lambda: call(bias=torch.randn(4, 5, 7)),
        ShapeError,
        "bias: cannot broadcast (4,5,7) to (b,h,q,k) = (2,3,5,7): 4 batch given, 2 in q",
    ),
    "bias of the heads": (
        lambda: call(bias=torch.randn(H, Q, K)),
        ShapeError,
        "3 batch given, 2 in q; three axes always mean (b,q,k): use bias[None] for (h,q,k)",
    ),
    "bias of booleans": (
        lambda: call(bias=torch.ones(Q, K, dtype=torch.bool)),
        DtypeError,
        "bias: expected a floating dtype, got torch.bool: use mask=... to hide pairs",
    ),
    "bias of infinities": (
        lambda: call(bias=torch.full((Q, K), float("-inf"))),
        ArgumentError,
        "bias: found NaN or infinity: hide pairs with mask=..., a bias is finite",
    ),
    "bias of another kind": (
        lambda: call(bias="alibi"),
        DtypeError,
        "bias: expected a tensor or a position bias, got str",
    ),
    "bias for other heads": (lambda: call(bias=positions.ALiBi(4)), RegardError, "4"),
    "scale": (lambda: call(scale=float("nan")), DtypeError, "scale: expected a finite number, got nan"),
    "dropout": (lambda: call(dropout=1.5), ArgumentError, "dropout: expected a share from 0 to 1, got 1.5"),
    "is_causal beside a mask": (
        lambda: call(mask=causal(), is_causal=True),
        UnknownArgumentError,
        "is_causal: not an argument of attention(): use mask=regard.causal()",
    ),
    "attn_mask": (
        lambda: call(attn_mask=torch.ones(Q, K, dtype=torch.bool)),
        UnknownArgumentError,
        "attn_mask: not an argument of attention(): use mask=..., where True may be attended",
    ),
    "key_padding_mask": (
        lambda: call(key_padding_mask=torch.ones(B, K, dtype=torch.bool)),
        UnknownArgumentError,
        "key_padding_mask: not an argument of attention(): use mask=regard.Mask.from_key_padding_mask(...)",
    ),
    "misspelt argument": (
        lambda: call(retrun_map=True),
        UnknownArgumentError,
        "retrun_map: not an argument of attention(): did you mean 'return_map'?",
    ),
    "float8": (
        lambda: call(*(x.to(torch.float8_e4m3fn) for x in tensors())),
        DtypeError,
        "q: expected a floating dtype, got torch.float8_e4m3fn: use q.float()",
    ),
    "class of a score": (
        lambda: call(score=scores.Dot),
        DtypeError,
        "score: expected a score, got the class Dot: make one: Dot(...)",
    ),
    "class of a bias": (
        lambda: call(bias=positions.ALiBi),
        DtypeError,
        "bias: expected a position bias, got the class ALiBi: make one: ALiBi(...)",
    ),
    "score of another dtype": (
        lambda: attention(*(x.double() for x in tensors()), score=scores.Bilinear(D, D)),
        DtypeError,
        "score: its parameters are torch.float32, but q is torch.float64: use score.to(q.dtype)",
    ),
    "width of a score": (
        lambda: scores.Additive(8, 0, 4),
        ArgumentError,
        "key_dim: expected a whole number of 1 or more, got 0",
    ),
    "padding of nothing": (
        lambda: padding(None),
        DtypeError,
        "keep: expected a tensor or a list of numbers, got None",
    ),
    "ragged padding": (
        lambda: padding([[1], [1, 1]]),
        DtypeError,
        "keep: expected a tensor or a list of numbers",
    ),
    "ragged blocks": (
        lambda: blocks([[1], [1, 1]], 2),
        DtypeError,
        "layout: expected a tensor or a list of numbers",
    ),
    "size of a block": (
        lambda: blocks([[1]], 2.0),
        DtypeError,
        "size: expected a whole number of 1 or more, got 2.0",
    ),
    "sides of a block": (
        lambda: blocks([[1]], (2, 2, 2)),
        ArgumentError,
        "size: expected one side or (queries, keys)",
    ),
    "half a token": (lambda: global_tokens([1.5]), DtypeError, "positions: expected a whole number, got 1.5"),
    "global tokens of nothing": (
        lambda: global_tokens(None),
        DtypeError,
        "positions: expected a whole number of 0 or more, got None",
    ),
    "a mask and nothing": (
        lambda: operator.and_(causal(), None),
        DtypeError,
        "mask: expected a Mask or a tensor, got None",
    ),
    "dropout of another kind": (
        lambda: call(dropout="a"),
        ArgumentError,
        "dropout: expected a share from 0 to 1, got 'a'",
    ),
    "dropout as a switch": (
        lambda: call(dropout=True),
        ArgumentError,
        "dropout: expected a share from 0 to 1, got True",
    ),
    "score vector of two axes": (
        lambda: scores.Tanh(torch.ones(2, 3)),
        ShapeError,
        "v: expected (m,), got (2, 3)",
    ),
    "scale of another kind": (
        lambda: call(scale="0.5"),
        DtypeError,
        "scale: expected a finite number, got '0.5'",
    ),
    "negative dropout": (
        lambda: call(dropout=-0.1),
        ArgumentError,
        "dropout: expected a share from 0 to 1, got -0.1",
    ),
    "mask of another batch in the block-sparse kernel": (
        lambda: attention(
            *(torch.randn(2, 1, 1024, 4) for _ in range(3)), mask=window(3, 0) & padding([9, 9, 9])
        ),
        ShapeError,
        "padding: made for a batch of 3, but q has 2",
    ),
    "bias of one axis": (
        lambda: call(bias=torch.randn(K)),
        ShapeError,
        "bias: expected (q,k), (b,q,k) or (b,h,q,k), got (7)",
    ),
    "bias on another device": (
        lambda: call(bias=torch.randn(Q, K, device="meta")),
        DtypeError,
        "bias: on meta, but q is on cpu: use bias.to(q.device)",
    ),
    "window of booleans": (lambda: window(True, 0), DtypeError, "left: expected a whole number, got True"),
    "causal offsets of floats": (
        lambda: causal(torch.tensor([1.5, 2.0])),
        ArgumentError,
        "offset: expected an integer or an integer tensor (b,), got torch.float32 (2)",
    ),
    "causal offsets of two axes": (
        lambda: causal(torch.ones(2, 1, dtype=torch.long)),
        ArgumentError,
        "offset: expected an integer or an integer tensor (b,), got torch.int64 (2,1)",
    ),
    "negative number of global tokens": (
        lambda: global_tokens(-1),
        ArgumentError,
        "positions: expected a whole number of 0 or more, got -1",
    ),
    "blocks of one axis": (
        lambda: blocks([1, 0], size=4),
        ShapeError,
        "layout: expected (query blocks, key blocks), got (2)",
    ),
    "blocks too few for the keys": (
        lambda: call(mask=blocks([[1], [1]], size=4)),
        ShapeError,
        "layout: 2 x 1 blocks of 4 x 4 do not cover (q,k) = (5,7): give at least 2 x 2 blocks",
    ),
    "padding of three axes": (
        lambda: padding(torch.ones(2, 3, 4, dtype=torch.bool)),
        ShapeError,
        "keep: expected lengths (b,) or booleans (b,k), got (2,3,4)",
    ),
    "additive of booleans": (
        lambda: Mask.from_additive(torch.ones(2, 2, dtype=torch.bool)),
        MaskError,
        "mask: expected a float tensor of 0 and -inf, got torch.bool of 2 axes",
    ),
    "key padding mask of one axis": (
        lambda: Mask.from_key_padding_mask(torch.ones(3, dtype=torch.bool)),
        MaskError,
        "mask: expected a (b,k) tensor, got torch.bool of 1 axes",
    ),
    "key padding mask of numbers": (
        lambda: Mask.from_key_padding_mask(torch.full((2, 3), 0.5)),
        MaskError,
        "mask: expected only 0 and -inf, found other numbers",
    ),
    "callable of another kind": (
        lambda: call(score=lambda q, k: 1.0),
        ShapeError,
        "score: the callable must return (b,h,q,k) = (2,3,5,7), got float",
    ),
    "weights": (
        lambda: attention_weights(torch.randn(3, 4), torch.randn(5, 2)),
        ShapeError,
        "k: width 2, but q has 4",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_error_names_the_argument_and_the_fix(name):
    bad, kind, message = CASES[name]
    with pytest.raises(kind, match=re.escape(message)) as caught:
        bad()
    assert isinstance(caught.value, RegardError)


@pytest.mark.parametrize("number", [np.int64(2), np.uint8(2), 2])
def test_any_kind_of_integer_will_do(number):
    assert window(number, number).left == 2
    assert causal(number).offset == 2
    call(scale=np.float32(0.5), mask=window(number))


def test_a_renamed_error_mentions_the_options_of_the_caller():
    with pytest.raises(ArgumentError) as raised, renamed(width="image_width", size="image_height"):
        raise ArgumentError(
            "size", "too large", f"give {option('size', 3)}, {option('width')} or {option('x')}"
        )
    assert str(raised.value) == "image_height: too large: give image_height=3, image_width= or x="
    assert raised.value.in_words(lambda name, value: f"--{name} {value}").count("--image_") == 2


def test_errors_are_also_the_kinds_that_callers_catch():
    assert issubclass(ShapeError, ValueError)
    assert issubclass(DtypeError, TypeError)
    assert issubclass(UnknownArgumentError, TypeError)
    assert issubclass(MissingExtraError, ImportError)


def test_a_missing_extra_names_the_command():
    message = str(MissingExtraError("matplotlib", "plot", "drawing"))
    assert message == f"drawing needs matplotlib: install it with  {install_command('plot')}"


class Installed:
    """A distribution that pip installed from a place, or from an index."""

    def __init__(self, record):
        self.record = record

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.record


@pytest.mark.parametrize(
    ("place", "project", "record", "expected"),
    [
        ("clone/src/regard", True, None, "pip install -e '{0}/clone[plot]'"),
        (
            "lib/regard/x",
            True,
            '{{"url": "file://{0}/clone", "dir_info": {{}}}}',
            "pip install '{0}/clone[plot]'",
        ),
        (
            "lib/regard/x",
            False,
            '{{"url": "file://{0}/clone", "dir_info": {{}}}}',
            "pip install 'regard[plot]'",
        ),
        ("lib/regard/x", True, '{{"url": "https://example.org/regard.whl"}}', "pip install 'regard[plot]'"),
        ("lib/regard/x", True, None, "pip install 'regard[plot]'"),
        ("lib/regard/x", True, "not JSON", "pip install 'regard[plot]'"),
    ],
)
def test_the_command_names_the_folder_that_regard_comes_from(
    tmp_path, monkeypatch, place, project, record, expected
):
    (tmp_path / "clone").mkdir()
    if project:
        (tmp_path / "clone" / "pyproject.toml").touch()
    monkeypatch.setattr(errors, "__file__", str(tmp_path / place / "errors.py"))
    text = None if record is None else record.format(tmp_path)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(text))
    assert install_command("plot") == expected.format(tmp_path)


def test_a_package_that_pip_does_not_know_is_named_as_in_an_index(tmp_path, monkeypatch):
    def distribution(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(errors, "__file__", str(tmp_path / "a" / "b" / "c" / "errors.py"))
    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    assert install_command("plot") == "pip install 'regard[plot]'"


def test_a_misspelt_public_name_suggests_the_right_one():
    with pytest.raises(AttributeError, match="attention"):
        regard.atention  # noqa: B018


SQUARE = torch.ones(Q, Q)
TOKENS = torch.randn(B, Q, 12)
HEADS = torch.randn(B, H, Q, D)
with warnings.catch_warnings():
    # Torch calls these tensors beta and prototypes.
    warnings.simplefilter("ignore")
    NOT_DENSE = {
        "sparse": SQUARE.to_sparse(),
        "CSR": SQUARE.to_sparse_csr(),
        "nested": torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]),
        "jagged": torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged),
        "quantized": torch.quantize_per_tensor(SQUARE, 0.1, 0, torch.qint8),
    }
NO_MASK = {
    "array of booleans": np.ones((Q, Q), bool),
    "array of floats": np.zeros((Q, Q)),
    "list": [[1] * Q] * Q,
    "ragged list": [[1], [1, 0]],
    "complex": torch.ones(Q, Q, dtype=torch.complex64),
    "8-bit floats": torch.zeros(Q, Q).to(torch.float8_e4m3fn),
    "meta": torch.ones(Q, Q, dtype=torch.bool, device="meta"),
    **NOT_DENSE,
}
LAYERS = {
    "multi-head": (regard.MultiHeadAttention(12, 3), 1),
    "basic": (regard.BasicAttention(12), 3),
    "self": (regard.SelfAttention(12), 1),
    "simple": (regard.SimpleAttention(12), 3),
    "encoder-decoder": (regard.EncoderDecoderAttention(12), 2),
    "additive": (regard.AdditiveAttention(12), 2),
}


@pytest.mark.parametrize("mask", NO_MASK.values(), ids=NO_MASK)
def test_whatever_is_no_mask_is_named_in_every_function_and_layer(mask):
    calls = [
        lambda: attention(HEADS, HEADS, HEADS, mask=mask),
        lambda: attention_weights(HEADS, HEADS, mask=mask),
        *[functools.partial(layer, *[TOKENS] * n, mask=mask) for layer, n in LAYERS.values()],
    ]
    if not (isinstance(mask, torch.Tensor) and mask.is_meta):
        calls += [lambda: causal() & mask, lambda: mask | causal()]
    for call in calls:
        with pytest.raises(DtypeError, match="^mask: "):
            call()


@pytest.mark.parametrize("x", NOT_DENSE.values(), ids=NOT_DENSE)
def test_tensors_that_are_not_dense_are_named(x):
    for call in (
        lambda: attention(x, HEADS, HEADS),
        lambda: attention(HEADS, x, HEADS),
        lambda: attention(HEADS, HEADS, HEADS, bias=x),
        lambda: padding(x),
        lambda: blocks(x, 2),
        lambda: global_tokens(x),
        lambda: regard.AttentionMap.from_weights(x),
        lambda: regard.Recording.from_weights(x),
        lambda: regard.Recording.from_weights(np.eye(3), x),
        *[functools.partial(layer, *[x] * n) for layer, n in LAYERS.values()],
    ):
        with pytest.raises(DtypeError):
            call()


@pytest.mark.parametrize("name", ["key_padding_mask", "is_causal", "attn_mask"])
def test_an_argument_of_another_library_names_the_one_of_ours(name):
    calls = [
        lambda **given: attention(HEADS, HEADS, HEADS, **given),
        lambda **given: attention_weights(HEADS, HEADS, **given),
        *[functools.partial(layer, *[TOKENS] * n) for layer, n in LAYERS.values()],
    ]
    for call in calls:
        with pytest.raises(UnknownArgumentError, match=rf"^{name}: not an argument of .*use mask="):
            call(**{name: True})


RECORDING = regard.Recording.from_weights(np.eye(3), ["a", "b", "c"])
Grid = regard.shapes.Grid
HOSTILE = {
    "window": ("left", lambda: window(10**30)),
    "window, right": ("right", lambda: window(1, 10**30)),
    "causal": ("offset", lambda: causal(-(10**30))),
    "global tokens": ("positions", lambda: global_tokens(10**30)),
    "float in a grid": ("grid.q", lambda: causal().dense(Grid(1, 1, 3.0, 3))),
    "negative grid": ("grid.q", lambda: padding([3]).dense(Grid(1, 1, -3, 3))),
    "no grid": ("grid", lambda: regard.masks.as_mask(SQUARE.bool()).dense((1, 1, 5, 5))),
    "no heads": ("q", lambda: attention(*[torch.ones(2, 0, 5, 4)] * 3)),
    "mean of no heads": (
        "heads",
        lambda: regard.AttentionMap.from_weights(torch.ones(1, 0, 2, 2)).mean_heads(),
    ),
    "layer of no heads": ("num_heads", lambda: regard.MultiHeadAttention(12, 0)),
    "layer of huge width": ("hidden_dim", lambda: regard.MultiHeadAttention(10**30, 3)),
    "layer of large width": ("num_heads", lambda: regard.MultiHeadAttention(10**15, 7)),
    "dropout": ("dropout", lambda: regard.MultiHeadAttention(12, 3, dropout="0.1")),
    "cache": ("cache", lambda: regard.MultiHeadAttention(12, 3)(TOKENS, cache=3)),
    "inputs of a layer without weights": ("key", lambda: regard.SimpleAttention(12)(TOKENS, [1], TOKENS)),
    "scale": ("scale", lambda: attention(HEADS, HEADS, HEADS, scale=10**400)),
    "score of one argument": ("score", lambda: attention(HEADS, HEADS, HEADS, score=lambda q: q)),
    "rows of a map": ("index", lambda: RECORDING[0].map[slice("a")]),
    "records": ("index", lambda: RECORDING[slice(0, 3, 0)]),
    "layer": ("layer", lambda: RECORDING.by(layer="a")),
    "layers": ("layer", lambda: RECORDING.by(layer=[None])),
    "name": ("name", lambda: RECORDING.by(name=3)),
    "kind": ("kind", lambda: RECORDING.by(kind=np.eye(2))),
    "batch": ("batch", lambda: RECORDING.words([1])),
    "file": ("path", lambda: regard.Recording.load(None)),
    "file of a map": ("path", lambda: RECORDING[0].map.save(3)),
    "ragged weights": ("weights", lambda: regard.AttentionMap.from_weights([[1.0], [0.5, 0.5]])),
    "weights of text": ("weights", lambda: regard.AttentionMap.from_weights("a")),
    "grid of a plot": (
        "grid",
        lambda: regard.plots.plot_image_attention(np.ones((8, 8)), np.ones(4) / 4, grid=(2.0, 2.0)),
    ),
    "grid of words": (
        "grid",
        lambda: regard.plots.plot_image_words(np.ones((8, 8)), np.ones((1, 4)) / 4, ["a"], grid=3),
    ),
    "grid of a record": (
        "records[0].key_grid",
        lambda: regard.viewer.html(
            [regard.Record(name="a", layer=0, kind="cross", map=RECORDING[0].map, key_grid=(1.0, 3.0))]
        ),
    ),
}


@pytest.mark.parametrize(("argument", "call"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_arguments_are_named(argument, call):
    with pytest.raises(RegardError) as caught:
        call()
    assert caught.value.argument == argument


ONE = [[1.0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": [[1.0], [1.0, 2.0]]}, "q: expected an array or lists of equal length"),
        ({"v": [[1.0], [1.0, 2.0]]}, "v: expected an array or lists of equal length"),
        ({"mask": [[1], [1, 0]]}, "mask: expected an array or lists of equal length"),
        ({"q": None}, r"q: expected \(...,q,d\), got None"),
        ({"k": torch.eye(2).to_sparse()}, "k: expected an array"),
        ({"scale": "a"}, "scale: expected a finite number"),
        ({"digits": 1.5}, "digits: expected a whole number"),
        ({"query_tokens": 5}, "query_tokens: expected a list of 1 words"),
        ({"params": 3}, "params: expected the parameters of the score"),
        ({"score": ["dot"]}, "score: expected one of"),
    ],
)
def test_hostile_arguments_of_explain_are_named(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        regard.reference.explain(**({"q": ONE, "k": ONE, "v": ONE} | changes))
