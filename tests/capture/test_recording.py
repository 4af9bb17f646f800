"""Records in a file, labels by hand, and the sequence that holds them."""

import copy
import gc
import json
import pickle
import random
import re
import weakref

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import regard
from regard.capture import Recording
from regard.errors import (
    ArgumentError,
    FileError,
    OutsideError,
    RegardError,
    UnknownNameError,
)
from regard.maps import AttentionMap, Record
from regard.maps.image_windows import ImageWindows
from regard.maps.record_files import load_records
from regard.maps.sources import Stored
from regard.maps.storage import write_file
from regard.maps.unrecorded import Unrecorded
from regard.shapes import Grid
from regard.viewer.payload import embedded

B, H, Q, D = 2, 2, 5, 11


@pytest.fixture(scope="module")
def seen():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(H * D, H, 13, batch_first=True), 3).eval()
    bias = torch.randn(Q, Q)
    with regard.capture(model) as seen:
        model(torch.randn(B, Q, H * D), mask=bias)
    return seen


def test_records_come_back_from_a_file(seen, tmp_path):
    labelled = seen.label([list("abcde"), list("fghij")])
    labelled.save(tmp_path / "seen.safetensors")
    back = Recording.load(tmp_path / "seen.safetensors")
    assert repr(back) == repr(seen)
    for one, other in zip(labelled, back, strict=True):
        assert torch.equal(one.map.weights(), other.map.weights())
        assert one.query_tokens == other.query_tokens == [list("abcde"), list("fghij")]
    with pytest.raises(ArgumentError, match="have no model"):
        back.verify()


def test_the_file_holds_once_what_records_share(seen, tmp_path):
    seen.save(tmp_path / "seen.safetensors")
    with safe_open(tmp_path / "seen.safetensors", framework="pt") as file:
        names = list(file.keys())
    assert len([name for name in names if "bias" in name]) == 1
    assert len(names) == 3 * 3 + 1


def test_records_and_maps_can_be_pickled_and_copied(seen, tmp_path):
    """Processes and caches need it. Nothing of the model and its capture goes with the records."""
    labelled = seen.label([list("abcde"), list("fghij")])
    for back in (pickled(labelled), copy.deepcopy(labelled)):
        assert [(r.name, r.layer, r.kind, r.query_tokens) for r in back] == [
            (r.name, r.layer, r.kind, r.query_tokens) for r in labelled
        ]
        for one, other in zip(back, labelled, strict=True):
            assert torch.equal(one.map.weights(), other.map.weights())
    seen.save(tmp_path / "seen.safetensors")
    assert len(pickle.dumps(seen)) < 1.5 * (tmp_path / "seen.safetensors").stat().st_size
    one = pickled(seen[1])
    assert (one.name, one.map.shape) == (seen[1].name, seen[1].map.shape)
    with torch.multiprocessing.get_context("spawn").Pool(1) as pool:
        sums = pool.apply(_row_sums, (seen,))
    assert sums == [pytest.approx(1.0, abs=1e-5)] * len(seen)


def pickled(x):
    return pickle.loads(pickle.dumps(x))  # noqa: S301  # written by the test itself


def _row_sums(records):
    return [float(record.map.weights().sum(-1).mean()) for record in records]


def test_a_map_of_a_callable_is_pickled_as_its_weights():
    q = torch.randn(B, H, Q, D)
    _, found = regard.attention(q, q, q, score=lambda q, k: (q @ k.mT).tanh(), return_map=True)
    back = pickled(found)
    assert torch.allclose(back.weights(), found.weights(), atol=1e-6)


def test_rows_of_two_towers_are_named_by_their_tower(fonts):
    """The towers of CLIP have layers of the same numbers, of two kinds or of one."""
    names = [f"{tower}_model.encoder.layers.{n}.self_attn" for tower in ("text", "vision") for n in range(2)]
    weights = AttentionMap.from_weights(torch.full((1, 1, 3, 3), 1 / 3))
    for kinds in (["causal", "causal", "self", "self"], ["self"] * 4):
        records = [
            Record(name=name, layer=int(name.split(".")[3]), kind=kind, map=weights)
            for name, kind in zip(names, kinds, strict=True)
        ]
        roles = [entry["role"] for entry in embedded(records).values["records"]]
        assert roles == ["text_model", "text_model", "vision_model", "vision_model"]
        titles = [ax.get_ylabel() for ax in regard.show(Recording(records)).axes]
        assert titles[1].startswith("text_model, layer 1")
        assert len(set(titles)) == 4
        twice = embedded([*records[:2], *records[:2]]).values["records"]
        assert [entry["role"] for entry in twice] == [None] * 4  # two inputs of one tower


def test_every_field_of_a_record_is_saved_and_loaded(tmp_path):
    torch.manual_seed(0)
    inner = Stored(torch.softmax(torch.randn(4, 3, 4, 4), -1))
    records = [
        Record(
            name="a",
            layer=None,
            kind="self",
            map=AttentionMap(ImageWindows(inner, (2, 4), 2, 1)),
            query_grid=(2, 4),
        ),
        Record(
            name="b",
            layer=7,
            kind="cross",
            map=AttentionMap(Unrecorded(Grid(1, 2, 3, 5), "the map was dropped")),
            dropped="too large",
            key_grid=(1, 4),
            key_extra=1,
        ),
    ]
    Recording(records).save(tmp_path / "x.safetensors")
    first, second = Recording.load(tmp_path / "x.safetensors")
    assert torch.equal(first.map.weights(), records[0].map.weights())
    assert (first.query_grid, first.layer, second.layer) == ((2, 4), None, 7)
    assert (second.dropped, second.key_grid, second.key_extra, second.map.shape) == (
        "too large",
        (1, 4),
        1,
        (1, 2, 3, 5),
    )
    with pytest.raises(RegardError, match="the map was dropped"):
        second.map.weights()


def test_a_user_defined_score_is_saved_as_weights(tmp_path):
    class Own(nn.Module):
        def forward(self, q):
            return regard.attention(q, q, q, score=lambda a, b: -torch.cdist(a, b))

    with regard.capture(model := Own()) as seen:
        model(torch.randn(B, H, Q, D))
    with pytest.raises(ArgumentError, match="as_weights=True"):
        seen.save(tmp_path / "x.safetensors")
    seen.save(tmp_path / "x.safetensors", as_weights=True)
    back = Recording.load(tmp_path / "x.safetensors")
    assert torch.equal(back[0].map.weights(), seen[0].map.weights())


def test_tokens_of_a_rolled_picture_are_placed_in_their_windows():
    """In a 4 x 4 picture rolled by 1, token (0,0) is in the last 2 x 2 window, with the other three corners."""
    weights = torch.zeros(4, 1, 4, 4)
    weights[3, 0, 3] = torch.tensor([0.1, 0.2, 0.3, 0.4])  # of the last window, its last token
    found = AttentionMap(ImageWindows(Stored(weights), (4, 4), 2, 1)).weights()
    assert found.shape == (1, 1, 16, 16)
    row = found[0, 0, 0].reshape(4, 4)
    assert row[3, 3] == pytest.approx(0.1)
    assert row[3, 0] == pytest.approx(0.2)
    assert row[0, 3] == pytest.approx(0.3)
    assert row[0, 0] == pytest.approx(0.4)
    assert found.sum() == pytest.approx(1.0)


def _mutations(content, chance):
    kind = chance.randrange(4)
    if kind == 0:
        return content[: chance.randrange(len(content))]
    data = bytearray(content)
    if kind == 1:
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == 2:
        at = chance.randrange(min(len(data), 4000))
        data[at : at + chance.randrange(1, 9)] = bytes(
            chance.randrange(256) for _ in range(chance.randrange(9))
        )
    else:
        digits = [m.start() for m in re.finditer(rb"\d", content[:4000])]
        data[chance.choice(digits)] = ord(chance.choice("0123456789-"))
    return bytes(data)


def _content(path):
    """Everything that a file says, in a form that can be compared."""
    with safe_open(path, framework="pt") as file:
        told = {key: text for key, text in file.metadata().items() if key in ("format", "records")}
        return told, {name: file.get_tensor(name).numpy().tobytes() for name in file.keys()}  # noqa: SIM118


def test_every_altered_file_is_a_named_error(seen, tmp_path):
    seen.label([list("abcde"), list("fghij")]).save(path := tmp_path / "seen.safetensors")
    content, whole, chance = path.read_bytes(), _content(path), random.Random(1)
    refused = 0
    for _ in range(1000):
        path.write_bytes(_mutations(content, chance))
        try:
            Recording.load(path)
        except FileError:
            refused += 1
        else:
            # Blanks of the header, or the number that was there before.
            assert _content(path) == whole
    assert refused > 850


def _header(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def test_a_file_without_a_digest_or_of_an_unreleased_version_is_refused(seen, tmp_path):
    seen.save(path := tmp_path / "seen.safetensors")
    header, tensors = _header(path)
    for changes, message in (
        ({"digest": ""}, "was modified after it was written"),
        ({"format": "regard.records/1"}, "not a file of records: expected format 'regard.records/2'"),
    ):
        save_file(tensors, path, metadata=header | changes)
        with pytest.raises(FileError, match=message):
            Recording.load(path)


HUGE = 3_000_000_000


def _set(*keys):
    """Return a function that sets a number in the description of a file, under these keys."""
    *above, last, value = keys

    def change(content):
        for key in above:
            content = content[key]
        content[last] = value

    return change


BAD_NUMBERS = {
    "layer": _set("records", 0, "layer", HUGE),
    "layer below 0": _set("records", 0, "layer", -1),
    "layer as a fraction": _set("records", 0, "layer", 1.5),
    "query_extra": _set("records", 0, "query_extra", HUGE),
    "key_extra": _set("records", 0, "key_extra", -5),
    "query_grid": _set("records", 0, "query_grid", [50_000, 60_000]),
    "key_grid": _set("records", 0, "key_grid", [0, 3]),
    "heads": _set("records", 0, "heads", [0, HUGE]),
    "sinks": _set("records", 0, "sinks", [HUGE]),
    "scale": _set("records", 0, "map", "scale", float("nan")),
    "grid": _set("records", 0, "map", "grid", [2.0, 2.0, 5.0, 5.0]),
    "absent": _set("records", 0, "map", {"source": "absent", "grid": [1, 1, HUGE, HUGE], "why": ""}),
    "ends": _set(
        *("records", 0, "map"),
        {"source": "selected", "of": {"source": "stored"}, "ends": [0, 1.0, 0, 1]},
    ),
    "window": _set("records", 0, "map", "mask", {"kind": "Window", "left": 10**30, "right": 0}),
    "window below 0": _set("records", 0, "map", "mask", {"kind": "Window", "left": -1, "right": 0}),
    "causal": _set("records", 0, "map", "mask", {"kind": "Causal", "offset": 10**30}),
    "global": _set("records", 0, "map", "mask", {"kind": "GlobalTokens", "positions": [0.5]}),
    "stored mask": _set("records", 0, "map", "mask", {"kind": "Stored", "keep": {"tensor": "q"}}),
    "padding": _set("records", 0, "map", "mask", {"kind": "Padding", "keep": {"tensor": "q"}}),
    "blocks": _set(
        "records", 0, "map", "mask", {"kind": "Blocks", "layout": {"tensor": "q"}, "size": [0, 1]}
    ),
    "picture": _set("pictures", [{"sequences": [[], []], "words": [[[0, HUGE]], []], "unplaced": None}]),
}


@pytest.mark.parametrize("change", BAD_NUMBERS.values(), ids=BAD_NUMBERS)
def test_a_number_that_the_data_do_not_bear_is_refused(seen, tmp_path, change):
    """The digest is right, as in a file that another program wrote."""
    seen.save(path := tmp_path / "seen.safetensors")
    header, tensors = _header(path)
    content = json.loads(header["records"])
    content["records"][0]["pictures"] = 0
    content["pictures"] = [{"sequences": [[], []], "words": [], "unplaced": None}]
    write_file(path, header["format"], "records", content, tensors)
    assert len(Recording.load(path)) == 3
    change(content)
    write_file(path, header["format"], "records", content, tensors)
    with pytest.raises(FileError, match="does not fit its tensors"):
        Recording.load(path)


def test_a_foreign_file_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.ones(2)}, path)
    with pytest.raises(
        FileError, match="not a file of records: expected format 'regard.records/2', got None"
    ):
        Recording.load(path)
    with pytest.raises(FileError, match="no file"):
        Recording.load(tmp_path / "nothing")
    write_file(path, "regard.records/2", "records", [1], {"a": torch.ones(2)})
    with pytest.raises(FileError, match="does not fit its tensors"):
        Recording.load(path)
    AttentionMap.from_weights(torch.eye(2)).save(path)
    with pytest.raises(FileError, match="got 'regard.map/2'"):
        Recording.load(path)


def test_a_recording_is_a_sequence(seen):
    assert len(seen) == 3
    assert seen[0] is seen["layers.0.self_attn"]
    assert [r.layer for r in seen[1:]] == [1, 2]
    assert [r.layer for r in seen.by(name="layers.2")] == [2]
    assert len(seen.by(kind="cross")) == 0
    assert len(seen.by(kind="self", layer=1)) == 1
    assert [r.layer for r in seen.by(layer=[0, -1])] == [0, len(seen) - 1]
    with pytest.raises(ArgumentError, match=r"layer: there is no record of layer 9: there are \[0, 1"):
        seen.by(layer=9)
    assert seen[-1] in seen
    with pytest.raises(OutsideError, match="record 3 of 3"):
        seen[3]
    with pytest.raises(UnknownNameError, match="did you mean 'layers.0.self_attn'"):
        seen["layers.0.self_atn"]
    with pytest.raises(UnknownNameError, match="kind: unknown name 'selff': did you mean 'self'"):
        seen.by(kind="selff")


class ByHand(nn.Module):
    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x


@pytest.mark.parametrize(
    "model", [ByHand(), nn.MultiheadAttention(4, 2, batch_first=True)], ids=["hand", "torch"]
)
def test_records_are_freed_when_nobody_holds_them(model):
    gc.disable()  # only reference counts free them
    try:
        with regard.capture(model, modules=["ByHand"] if isinstance(model, ByHand) else None) as seen:
            model(*[torch.randn(2, 3, 4)] * (1 if isinstance(model, ByHand) else 3))
        assert len(seen) == 1
        session, collector = weakref.ref(seen._session), weakref.ref(seen._session.collector)
        del seen
        assert session() is None
        assert collector() is None
    finally:
        gc.enable()


def test_labels_can_be_given(seen):
    assert seen[0].tokens is None
    assert seen.label(list("abcde"))[1].tokens == [list("abcde")] * B
    with pytest.raises(ArgumentError, match=r"no map has 3 tokens: the maps have \[5\]"):
        seen.label(list("abc"))
    with pytest.raises(RegardError, match="tokens=text.split"):
        seen.label("a b c d e")
    model = nn.MultiheadAttention(4, 2, batch_first=True)
    x, y = torch.randn(1, 2, 4), torch.randn(1, 3, 4)
    with regard.capture(model, query_tokens=["le", "chat"], key_tokens=["the", "black", "cat"]) as cross:
        model(x, y, y)
    assert (cross[0].query_tokens, cross[0].key_tokens) == ([["le", "chat"]], [["the", "black", "cat"]])


@pytest.mark.parametrize("tokenizer", ["ids", "pieces", "tokens"])
def test_labels_are_made_from_the_token_ids_of_the_input(tokenizer):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.attend = nn.Embedding(9, 4), nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            x = self.embed(x)
            return self.attend(x, x, x)[0]

    class Pieces:
        def pieces(self, ids):
            return [f"p{n}" for n in ids]

    class Tokens:
        def id_to_token(self, n):
            return f"t{n}"

    how, letter = {"ids": (None, ""), "pieces": (Pieces(), "p"), "tokens": (Tokens(), "t")}[tokenizer]
    with regard.capture(model := Model(), tokenizer=how) as seen:
        model(torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert seen[0].tokens == [[f"{letter}{n}" for n in row] for row in ((1, 2, 3), (4, 5, 6))]


def test_a_saved_page_has_the_title_and_the_names_of_the_records(seen, tmp_path):
    viewer = pytest.importorskip("regard.viewer")
    if not hasattr(viewer, "save_html"):
        pytest.skip("the viewer writes no pages yet")
    seen.label(list("abcde")).save_html(tmp_path / "seen.html", title="Three layers")
    page = (tmp_path / "seen.html").read_text(encoding="utf-8")
    assert "Three layers" in page
    assert "layers.2.self_attn" in page


def test_saving_refuses_empty_recordings_and_folders(tmp_path):
    seen = Recording.from_weights(torch.eye(3))
    with pytest.raises(ArgumentError, match="records: expected at least one record, got none"):
        seen[:0].save(tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileError, match="is a folder: give the name of a file"):
        load_records(tmp_path)
