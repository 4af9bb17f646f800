"""Tests of token data on disk and of batches, complete, with little padding, and alike in many processes."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ArgumentError, FileError, OutsideError
from regard.text import Skipped, read_pairs
from regard.text.batches import Batch, BucketedBatches, PairData, pad_sequences
from regard.text.buckets import Buckets
from regard.text.cache import TokenStore, write_stores
from regard.text.vocabularies import BytePairVocabulary, ByteVocabulary, CharacterVocabulary, WordVocabulary
from support.attention_cases import examples

BYTES = ByteVocabulary()
PAIRS = [("a", "bcd"), ("", "x"), ("ef", "g"), ("a", "bcd"), ("h" * 9, "i"), ("j", "k" * 9), ("né", "好")]
# At most 5 tokens, no empty side, no second time.
KEPT = [PAIRS[0], PAIRS[2], PAIRS[6]]


def build(folder, pairs=PAIRS, **options):
    return PairData.build(pairs, BYTES, BYTES, folder, **{"max_tokens": 5, **options})


def texts(data):
    return [tuple(BYTES.decode(side) for side in data.pair(place)) for place in range(len(data))]


def of_lengths(lengths) -> PairData:
    """Return pairs with given numbers of tokens and consecutive ids, so that every token shows its place."""
    sides, at = [[], []], 3
    for pair in lengths:
        for side, length in enumerate(pair):
            sides[side].append(range(at, at + length))
            at += length
    return PairData(TokenStore.from_lists(sides[0]), TokenStore.from_lists(sides[1]))


def typical(count=20_000, seed=0) -> PairData:
    """Return lengths as in real data, mostly short with a long tail, and similar on both sides."""
    rng = np.random.default_rng(seed)
    source = np.clip(rng.lognormal(2.3, 0.6, count), 1, 200)
    target = np.clip(source * rng.lognormal(0.15, 0.25, count), 1, 250)
    return of_lengths(np.stack([source, target], axis=1).astype(int))


# -- the data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_pairs_are_kept_in_order_and_the_rest_is_counted(tmp_path, where):
    skipped = Skipped()
    if where == "disk":
        build(tmp_path / "c", skipped=skipped)
        data = PairData.open(tmp_path / "c")
    else:
        data = PairData.in_memory(PAIRS, BYTES, BYTES, max_tokens=5, skipped=skipped)
    assert texts(data) == KEPT
    assert (skipped.empty, skipped.too_long, skipped.duplicates) == (1, 2, 1)
    assert data.skipped == skipped
    assert data.lengths().tolist() == [[2, 4], [3, 2], [4, 4]]


def test_duplicates_stay_when_they_may(tmp_path):
    assert texts(build(tmp_path / "c", deduplicate=False)) == [PAIRS[0], PAIRS[2], PAIRS[0], PAIRS[6]]


def test_a_batch_has_the_ids_lengths_and_dtypes_computed_by_hand():
    batch = PairData.in_memory(KEPT, BYTES, BYTES).batch([2, 0])
    n, e, e2, c = 3 + ord("n"), 3 + 0xC3, 3 + 0xA9, [3 + value for value in "好".encode()]
    a, b = 3 + ord("a"), [3 + value for value in b"bcd"]
    assert batch.source.tolist() == [[n, e, e2, 2], [a, 2, 0, 0]]
    assert batch.target_input.tolist() == [[1, *c], [1, *b]]
    assert batch.target_output.tolist() == [[*c, 2], [*b, 2]]
    assert batch.source_lengths.tolist() == [4, 2]
    assert batch.target_lengths.tolist() == [4, 4]
    assert batch.indices.tolist() == [2, 0]
    assert (batch.tokens, len(batch)) == (8, 2)
    assert {getattr(batch, name).dtype for name in Batch.__dataclass_fields__} == {torch.int64}
    moved = batch.to("meta")
    assert moved.target_output.device.type == "meta"
    assert moved.source.shape == batch.source.shape


@examples(60, 1000)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12), st.data())
def test_a_batch_is_its_pairs_with_specials_and_padding(lengths, data):
    pairs = of_lengths(lengths)
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1))
    batch = pairs.batch(chosen)
    s, t = batch.source.shape[1], batch.target_output.shape[1]
    for row, place in enumerate(chosen):
        source, target = (side.tolist() for side in pairs.pair(place))
        assert batch.source[row].tolist() == source + [2] + [0] * (s - len(source) - 1)
        assert batch.target_input[row].tolist() == [1] + target + [0] * (t - len(target) - 1)
        assert batch.target_output[row].tolist() == target + [2] + [0] * (t - len(target) - 1)
    assert s == batch.source_lengths.max()
    assert t == batch.target_lengths.max()
    assert batch.tokens == int((batch.target_output != 0).sum()) == int((batch.target_input != 0).sum())


def test_data_and_batches_may_be_empty(tmp_path):
    empty = build(tmp_path / "c", pairs=[])
    assert len(empty) == len(PairData.in_memory([], BYTES, BYTES)) == 0
    assert empty.lengths().shape == (0, 2)
    assert empty.batch([]).source.shape == (0, 1)
    assert len(PairData.open(tmp_path / "c", verify=True)) == 0


def test_indices_outside_the_data_are_refused():
    data = of_lengths([(1, 1)])
    for wrong in ([1], [-1]):
        with pytest.raises(OutsideError, match="indices: expected numbers from 0 to 0"):
            data.batch(wrong)
    with pytest.raises(OutsideError, match="place"):
        data.pair(1)
    with pytest.raises(ArgumentError, match="max_tokens"):
        PairData.in_memory(PAIRS, BYTES, BYTES, max_tokens=0)
    with pytest.raises(ArgumentError, match="as many sequences"):
        PairData(data.source, TokenStore.from_lists([]))


def test_sequences_are_padded_between_start_and_end():
    ids, lengths = pad_sequences([[7, 8], [], [9]], start=1, end=2)
    assert ids.tolist() == [[1, 7, 8, 2], [1, 2, 0, 0], [1, 9, 2, 0]]
    assert lengths.tolist() == [4, 2, 3]
    assert pad_sequences([])[0].shape == (0, 0)


@pytest.mark.parametrize(("size", "width"), [(2**16, 2), (2**16 + 1, 4)])
def test_ids_take_two_bytes_if_they_fit(tmp_path, size, width):
    ids = [0, size - 1, 7]
    stores, _ = write_stores(
        tmp_path / "c", {"text": size}, lambda writers: writers["text"].append([ids]) or {}
    )
    assert stores["text"][0].tolist() == ids
    assert (tmp_path / "c" / "text.ids").stat().st_size == 3 * width
    with pytest.raises(FileError, match="does not hold pairs, but text"):
        PairData.open(tmp_path / "c")


@pytest.mark.parametrize("kind", [BytePairVocabulary, WordVocabulary, CharacterVocabulary, ByteVocabulary])
def test_every_vocabulary_can_be_stored(tmp_path, kind):
    vocabulary = kind.train([text for pair in KEPT for text in pair], 300)
    data = PairData.build(KEPT, vocabulary, vocabulary, tmp_path / "c")
    assert [tuple(vocabulary.decode(side) for side in data.pair(place)) for place in range(3)] == KEPT


def test_pairs_of_several_encoding_chunks_are_kept_in_order(tmp_path):
    pairs = [(str(n), str(n * n)) for n in range(9000)]
    assert texts(build(tmp_path / "c", pairs, max_tokens=99)) == pairs
    assert texts(PairData.in_memory(pairs, BYTES, BYTES)) == pairs


# -- memory ----------------------------------------------------------------------------------------------------------


def peak_of(folder, count):
    pairs = ((f"sentence {n}", f"phrase {n % 10}") for n in range(count))
    tracemalloc.start()
    data = PairData.build(pairs, BYTES, BYTES, folder, deduplicate=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data) == count
    return peak


def test_memory_does_not_grow_with_the_number_of_pairs(tmp_path):
    # Two chunks of 4,096 are the most that is held at once: the one encoded and the one before.
    assert peak_of(tmp_path / "b", 30_000) < 1.1 * peak_of(tmp_path / "a", 9_000)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is asked of Linux")
def test_memory_does_not_grow_with_two_hundred_thousand_pairs(tmp_path):
    code = (
        "from regard.text import PairData, ByteVocabulary\nv = ByteVocabulary()\n"
        # Not ru_maxrss: on Linux a new program inherits the peak of the process that started it.
        "def peak(): return int([x for x in open('/proc/self/status') if 'VmHWM' in x][0].split()[1])\n"
        "def build(count):\n"
        "    pairs = ((f'a sentence {n}', f'une phrase {n}') for n in range(count))\n"
        f"    assert len(PairData.build(pairs, v, v, {str(tmp_path / 'c')!r})) == count\n"
        "build(10_000); before = peak(); build(200_000); print(peak() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert (
        int(done.stdout) < 16_000
    )  # kilobytes: the hashes of duplicates take 5,000, the ids would take 60,000


# -- the cache -------------------------------------------------------------------------------------------------------


def test_a_cache_is_opened_again(tmp_path):
    build(tmp_path / "c")
    data = PairData.open(tmp_path / "c", verify=True)
    assert texts(data) == KEPT
    assert data.manifest["vocabularies"]["source"] == BYTES.fingerprint
    assert not data.source.ids.flags.writeable
    assert isinstance(data.source.ids.base, np.memmap)
    assert sorted(os.listdir(tmp_path)) == ["c"]


FILES = ["source.ids", "source.offsets", "target.ids", "target.offsets"]


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_cache_that_is_not_whole_is_refused(tmp_path, name):
    build(tmp_path / "c")
    path = tmp_path / "c" / name
    path.write_bytes(path.read_bytes()[:-1])
    problem = "not JSON, or cut short" if name == "manifest.json" else f"{name} is cut short"
    if name == "manifest.json":
        # The last byte was only the end of the line.
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileError, match=problem):
        PairData.open(tmp_path / "c")
    path.unlink()
    with pytest.raises(FileError, match="there is no cache|is missing"):
        PairData.open(tmp_path / "c")


def test_a_cache_that_was_altered_is_refused(tmp_path):
    build(tmp_path / "c")
    ids = tmp_path / "c" / "target.ids"
    ids.write_bytes(ids.read_bytes()[::-1])
    PairData.open(tmp_path / "c")  # the sizes are right
    with pytest.raises(FileError, match=r"target\.ids was altered"):
        PairData.open(tmp_path / "c", verify=True)
    manifest = tmp_path / "c" / "manifest.json"
    said = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**said, "fingerprint": "other"}))
    with pytest.raises(FileError, match=r"manifest\.json was altered"):
        PairData.open(tmp_path / "c")
    manifest.write_text('{"format": "other"}')
    with pytest.raises(FileError, match="is not the manifest of a cache"):
        PairData.open(tmp_path / "c")


def test_an_interrupted_build_leaves_the_old_cache(tmp_path):
    build(tmp_path / "c")

    def stopping():
        yield from [("new", "one")] * 3
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "c", stopping())
    assert os.listdir(tmp_path) == ["c"]
    assert texts(PairData.open(tmp_path / "c", verify=True)) == KEPT
    build(tmp_path / "c", [("new", "one")])
    assert texts(PairData.open(tmp_path / "c")) == [("new", "one")]
    assert os.listdir(tmp_path) == ["c"]


def test_data_of_an_old_cache_goes_on_when_it_is_replaced(tmp_path):
    old = build(tmp_path / "c")
    build(tmp_path / "c", [("new", "one")])
    assert texts(old) == KEPT


def test_a_folder_with_other_things_is_never_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(FileError, match=r"holds other files \(thesis\.tex\): name a new folder"):
        build(tmp_path / "mine")
    with pytest.raises(FileError, match="is a file: name a folder"):
        build(tmp_path / "mine" / "thesis.tex")
    with pytest.raises(FileError, match="does not exist: make it first"):
        build(tmp_path / "none" / "c")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    assert len(build(tmp_path / "empty")) == 3


FULL_DISK = """
import resource, signal, sys
from regard.errors import FileError
from regard.text.cache import write_stores
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_stores(sys.argv[1], {"a": 9}, lambda writers: writers["a"].append([[1]] * 5000) or {})
except FileError as error:
    print(error)
"""


def test_a_full_disk_is_an_error_that_says_so(tmp_path):
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "a.ids: File too large" in done.stdout, done.stderr
    assert os.listdir(tmp_path) == []


def test_an_error_of_the_pairs_is_left_as_it_is(tmp_path):
    def broken():
        yield "a", "b"
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer"):
        build(tmp_path / "c", broken())


class Counted:
    """Reads a file, and counts how often it was asked to."""

    def __init__(self, path: Path):
        self.path, self.calls = path, 0

    def __call__(self):
        self.calls += 1
        return read_pairs(self.path)


def test_a_cache_is_built_only_when_something_changed(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\nccc\tdd\n")
    pairs = Counted(path)

    def get(source=BYTES, **options):
        return PairData.build_or_open(pairs, source, BYTES, tmp_path / "c", files=[path], **options)

    built = [(get(), pairs.calls)[1], (get(), pairs.calls)[1]]
    assert built == [1, 1]
    assert len(get(max_tokens=2)) == 1
    assert pairs.calls == 2
    get()
    get(deduplicate=False)
    get(identity={"columns": [0, 1]})
    get(ByteVocabulary(lowercase=True))
    assert pairs.calls == 6
    get()
    path.write_text("a\tb\nccc\tde\n")  # of the same length
    assert texts(get())[1] == ("ccc", "de")
    assert pairs.calls == 8
    with pytest.raises(ArgumentError, match="files: expected files or an identity, got neither"):
        PairData.build_or_open(pairs, BYTES, BYTES, tmp_path / "c")
    with pytest.raises(FileError, match="files: cannot read"):
        PairData.build_or_open(pairs, BYTES, BYTES, tmp_path / "c", files=[tmp_path / "none"])


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "altered", "missing"])
def test_a_damaged_cache_is_built_again(tmp_path, name, damage):
    def get():
        return PairData.build_or_open(lambda: PAIRS, BYTES, BYTES, tmp_path / "c", identity="x", max_tokens=5)

    get()
    path = tmp_path / "c" / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-2] if damage == "cut" else data[:-3] + b"\x01" + data[-2:])
    assert texts(get()) == KEPT
    assert path.read_bytes() == data


AT_ONCE = """
import sys
from regard.text.cache import write_stores
for turn in range(30):
    # Half of the processes write the same, the others something else.
    rows = [[turn % 7, int(sys.argv[2]) % 2, n] for n in range(300)]
    stores, _ = write_stores(sys.argv[1], {"a": 500}, lambda writers: writers["a"].append(rows) or {})
    assert [ids.tolist() for ids in stores["a"]] == rows  # one's own, not those of another
"""


def test_many_processes_may_build_the_same_cache_at_once(tmp_path):
    command = [sys.executable, "-c", AT_ONCE, str(tmp_path / "c")]
    runs = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE, text=True) for n in range(4)]
    errors = [process.communicate(timeout=120)[1] for process in runs]
    assert [process.returncode for process in runs] == [0] * 4, errors
    assert os.listdir(tmp_path) == ["c"]


# -- batches ---------------------------------------------------------------------------------------------------------

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80)


@examples(100, 2000)
@given(LENGTHS, st.integers(1, 300), st.integers(0, 3), st.integers(1, 6), st.booleans())
def test_every_pair_is_in_one_batch_and_batches_fit(lengths, tokens, number, smallest, shuffle):
    data = of_lengths(lengths)
    batches = BucketedBatches(data, tokens=tokens, min_sentences=smallest, shuffle=shuffle)
    plan = batches.plan(number)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(data)))
    assert len(plan) == len(batches) == len(batches.plan(number + 1))
    for indices in plan:
        cost = len(indices) * data.lengths()[indices].max(axis=0).sum() / 2
        assert len(indices) >= min(smallest, len(data))
        assert cost <= tokens or len(indices) < 2 * smallest


@examples(60, 1000)
@given(LENGTHS, st.integers(1, 300), st.integers(1, 4), st.booleans())
def test_many_processes_see_together_what_one_sees(lengths, tokens, world, shuffle):
    data = of_lengths(lengths)
    if len(data) < world:
        return
    options = {"tokens": tokens, "seed": 7, "shuffle": shuffle}
    alone = list(BucketedBatches(data, **options).epoch(3))
    shares = [
        list(BucketedBatches(data, rank=rank, world=world, **options).epoch(3)) for rank in range(world)
    ]
    assert {len(share) for share in shares} == {len(alone)}
    for whole, *parts in zip(alone, *shares, strict=True):
        assert min(map(len, parts)) >= 1
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert sorted(i for part in parts for i in part.indices.tolist()) == sorted(whole.indices.tolist())
        assert sum(part.tokens for part in parts) == whole.tokens


def test_a_large_world_still_has_no_empty_share():
    data = of_lengths([(50, 50)] * 20)
    for rank in range(7):
        batches = list(BucketedBatches(data, tokens=100, rank=rank, world=7).epoch(0))
        assert min(map(len, batches)) >= 1
    with pytest.raises(
        ArgumentError, match="data: expected at least a pair for each of 21 processes, got 20"
    ):
        BucketedBatches(data, world=21)


def plans_equal(left, right):
    return len(left) == len(right) and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_an_epoch_repeats_and_the_next_one_differs():
    data = typical(2000)
    batches = BucketedBatches(data, tokens=500, seed=5)
    assert plans_equal(batches.plan(0), batches.plan(0))
    assert plans_equal(batches.plan(0), BucketedBatches(data, tokens=500, seed=5).plan(0))
    assert not plans_equal(batches.plan(0), batches.plan(1))
    other = BucketedBatches(data, tokens=500, seed=6)
    assert not plans_equal(batches.plan(0), other.plan(0))
    assert not plans_equal(batches.plan(1), other.plan(0))
    fixed = BucketedBatches(data, tokens=500, seed=5, shuffle=False)
    assert plans_equal(fixed.plan(0), fixed.plan(1))


PLAN = """
from regard.text import PairData, BucketedBatches, TokenStore
store = TokenStore.from_lists([[5] * (1 + n * n % 23) for n in range(500)])
plan = BucketedBatches(PairData(store, store), tokens=100, seed=3).plan(2)
print([indices.tolist() for indices in plan])
"""


def test_the_plan_is_the_same_in_another_process(capsys):
    exec(PLAN, {})
    here = capsys.readouterr().out
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", PLAN]
    assert (
        subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120).stdout == here
    )


def test_batches_are_mixed_anew():
    """The sentences of a batch change from epoch to epoch, and short and long batches are in random order."""
    data = typical(5000)
    batches = BucketedBatches(data, tokens=500)
    company = []
    for number in (0, 1):
        plan = batches.plan(number)
        company.append(
            {(a, b) for batch in plan for a, b in zip(batch[:-1].tolist(), batch[1:].tolist(), strict=True)}
        )
        means = [data.lengths()[indices].mean() for indices in plan]
        assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3
    assert len(company[0] & company[1]) < 0.1 * len(company[0])


def test_going_on_in_the_middle_reads_nothing_before(monkeypatch):
    data = typical(1000)
    batches = BucketedBatches(data, tokens=500)
    whole = [batch.indices.tolist() for batch in batches.epoch(4)]
    read = []
    original = PairData.batch
    monkeypatch.setattr(
        PairData, "batch", lambda self, indices: read.append(indices) or original(self, indices)
    )
    rest = [batch.indices.tolist() for batch in batches.epoch(4, start=5)]
    assert rest == whole[5:]
    assert len(read) == len(whole) - 5
    assert list(batches.epoch(4, start=len(whole))) == []
    with pytest.raises(ArgumentError, match="number: expected an epoch from 0 on, got -1"):
        batches.plan(-1)
    with pytest.raises(ArgumentError, match="start"):
        next(batches.epoch(4, start=-1))


@pytest.mark.parametrize(("tokens", "count"), [(1024, 20_000), (4096, 60_000)])
def test_batches_hold_little_padding(tokens, count):
    batches = BucketedBatches(typical(count), tokens=tokens)
    waste = batches.padding(1)
    assert waste < 0.10
    made = list(batches.epoch(1))
    numbers = sum(batch.source.numel() + batch.target_output.numel() for batch in made)
    real = sum(int(batch.source_lengths.sum()) + batch.tokens for batch in made)
    assert waste == pytest.approx(1 - real / numbers)  # it says what there is
    costs = [len(batch) * (batch.source.shape[1] + batch.target_output.shape[1]) / 2 for batch in made]
    assert np.mean(costs) > 0.85 * tokens  # and the batches are full


def test_one_long_pair_does_not_widen_a_large_batch():
    data = of_lengths([(3, 3)] * 100 + [(90, 90)])
    plan = BucketedBatches(data, tokens=400, min_sentences=4).plan(0)
    assert max(len(indices) * data.lengths()[indices].max(axis=0).sum() / 2 for indices in plan) <= 400


def test_the_number_of_sentences_can_be_limited():
    batches = BucketedBatches(of_lengths([(2, 2)] * 50), tokens=4096, max_sentences=8)
    assert [len(indices) for indices in batches.plan(0)].count(8) >= 5
    assert max(len(indices) for indices in batches.plan(0)) == 8


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"rank": 2, "world": 2}, "rank: expected 0 to 1 in a world of 2, got 2"),
        ({"rank": -1}, "rank"),
        ({"tokens": 0}, "tokens: expected 1 or more, got 0"),
        ({"seed": -1}, "seed: expected 0 or more, got -1"),
        ({"max_sentences": 2}, "max_sentences: expected at least the smallest batch, 4, got 2"),
    ],
)
def test_wrong_arguments_of_bucketed_batches_are_refused(options, problem):
    with pytest.raises(ArgumentError, match=problem):
        BucketedBatches(of_lengths([(1, 1)] * 9), **options)
    with pytest.raises(ArgumentError, match="data: expected at least a pair"):
        BucketedBatches(of_lengths([]))


def test_single_sequences_can_be_bucketed_too():
    lengths = np.array([[5], [1], [9], [5]])
    plan = Buckets(lengths, tokens=10).in_order()
    assert [indices.tolist() for indices in plan] == [[1, 0], [3], [2]]
