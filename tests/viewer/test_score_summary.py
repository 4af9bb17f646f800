"""The one pass over the scores of a page gives exact results, skips hidden tiles and reports its progress."""

import numpy as np
import pytest
import torch

import regard
from regard.maps.sources import Recomputed
from regard.scores import Additive
from regard.viewer import payload, progress, score_summary
from regard.viewer.score_summary import summarize_scores
from regard.viewer.tiles import Overview
from support.viewer_records import BIASES, MASKS, B, H, recomputed, record


def streamed(source, side):
    """The overviews of a map as the server computes them."""
    found = []
    for one in range(source.grid.b):
        for head in range(source.grid.h):
            overview = Overview(source, one, head, side)
            list(overview.stream())
            found.append(overview.values)
    return np.stack(found).reshape(source.grid.b, source.grid.h, *found[0].shape)


def maps():
    torch.manual_seed(3)
    found = {name: recomputed(mask) for name, mask in MASKS.items()}
    found |= {f"bias {name}": recomputed(regard.causal(), bias) for name, (bias, _) in BIASES.items()}
    found["additive"] = recomputed(score=Additive(11, 11, 13))
    found["grouped"] = recomputed(regard.causal(), kv_heads=1)
    found["long"] = recomputed(regard.causal() & regard.padding([53, 61]), q=67, k=61)
    found["block-sparse"] = recomputed(regard.window(5, 0) | regard.global_tokens([0, 31]), q=61, k=61)
    return found


MAPS = maps()


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("tile", [(512, 2560, 32), (3, 5, 1), (7, 4, 2)])
def test_one_pass_gives_sums_and_overview(name, tile, monkeypatch):
    monkeypatch.setattr(score_summary, "ROWS", tile[0])
    monkeypatch.setattr(score_summary, "KEYS", tile[1])
    monkeypatch.setattr(score_summary, "LANES", tile[2])
    source = MAPS[name]._source
    assert isinstance(source, Recomputed)
    lse = Recomputed(source.ready, source.grid, source.mask, source.bias, None, None).lse
    for side in (None, 4, 13, 1000):
        found = summarize_scores(source, side)
        torch.testing.assert_close(found.lse, lse.float(), rtol=1e-5, atol=1e-5)
        if side is None:
            assert found.overview is None
            continue
        assert found.overview is not None
        expected = streamed(source, side)
        assert ((found.overview < 0) == (expected < 0)).all(), "the same cells are hidden"
        np.testing.assert_allclose(found.overview, expected, rtol=1e-4, atol=1e-6)


def test_scores_that_rise_by_more_than_float32_holds_do_not_overflow(monkeypatch):
    for name, size in (("ROWS", 4), ("KEYS", 8), ("LANES", 2)):
        monkeypatch.setattr(score_summary, name, size)
    q = torch.tensor([[1.0], [-1.0], [0.0]])
    # Row 0 rises over the tiles, row 1 falls, row 2 is flat.
    k = torch.linspace(0.0, 700.0, 41)[:, None]
    source = regard.attention(q, k, k, score="dot", return_map=True)[1]._source
    summary = summarize_scores(source, 4)
    torch.testing.assert_close(summary.lse, torch.logsumexp(q @ k.T, dim=-1)[None, None])
    np.testing.assert_allclose(summary.overview, streamed(source, 4), rtol=1e-4, atol=1e-6)


def test_tiles_that_a_mask_hides_whole_are_not_computed(monkeypatch):
    monkeypatch.setattr(score_summary, "ROWS", 8)
    monkeypatch.setattr(score_summary, "KEYS", 8)
    monkeypatch.setattr(score_summary, "LANES", 4)
    computed = []
    tile = score_summary.HeadScores.tile

    def counted(self, rows, n, *, masked):
        computed.append(self.heads)
        return tile(self, rows, n, masked=masked)

    monkeypatch.setattr(score_summary.HeadScores, "tile", counted)
    summarize_scores(recomputed(regard.causal(), q=32, k=32)._source, 16)
    assert sum(computed) == 10 * B * H, "of 16 tiles the 10 on and below the diagonal"


@pytest.mark.parametrize("terminal", ["xterm", "dumb", None])
def test_a_page_that_takes_a_while_says_so_in_a_terminal(terminal, capsys, monkeypatch, tmp_path):
    import sys

    monkeypatch.setattr(payload, "LONG", 600)
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal is not None)
    monkeypatch.setenv("TERM", terminal or "xterm")
    map = recomputed(regard.causal(), q=613, k=613)
    regard.viewer.save_html([record(map)], tmp_path / "x.html")
    told = capsys.readouterr()
    assert told.out == ""
    if terminal is None:
        assert told.err == ""
        return
    assert told.err.startswith("A page of maps of 613 tokens is being written.")
    assert "regard view FILE.safetensors" in told.err
    assert ("%, 0 s left" in told.err) is (terminal == "dumb")
    regard.viewer.save_html([record(recomputed(regard.causal()))], tmp_path / "y.html")
    assert capsys.readouterr().err == "", "a small page says nothing"
