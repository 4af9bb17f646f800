"""The first stop, one attention worked out by hand."""

from __future__ import annotations

from regard import plots, reference
from regard.learn.tour.presenter import Presenter
from regard.learn.words import Words

__all__ = ["stop", "worked_example"]

QUERY = [[1.0, 0.0]]
KEYS = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
VALUES = [[10.0, 0.0], [0.0, 20.0], [30.0, 0.0]]

TITLE = Words("Attention by hand", "手算注意力")
BEFORE = Words(
    """
    A query is compared with the key of every position. The output is the mean of the values, weighted by how well
    the keys match the query. Here are one query q = [1, 0], three keys [1, 0], [0, 1], [1, 0], and three values
    [10, 0], [0, 20], [30, 0].
    """,
    """
    查询会与每个位置的键比较，键与查询越匹配，对应的值在加权平均中的权重就越大，这个加权平均就是输出。
    下面有一个查询 q = [1, 0]，三个键 [1, 0]、[0, 1]、[1, 0]，以及三个值 [10, 0]、[0, 20]、[30, 0]。
    """,
)
AFTER = Words(
    """
    Two keys match the query and one does not, but that one still gets 0.1978. A softmax weight is never 0, because
    the exponential of a score is always positive. So the output is [16.0445, 3.9555], a mixture of all three values.
    (Some tutorials print [0.5, 0, 0.5] and [20, 0] here. A hard choice would give that, not softmax.)
    """,
    """
    有两个键与查询匹配，另一个不匹配，但它仍然得到 0.1978 的权重：指数函数恒为正，所以 softmax 的权重永远不会是 0。
    因此输出是 [16.0445, 3.9555]，三个值都混在其中。（有些教程在这里给出 [0.5, 0, 0.5] 和 [20, 0]，
    那是硬选择的结果，不是 softmax 的结果。）
    """,
)
PICTURE = Words("The query's weights", "查询的权重")


def worked_example() -> reference.Explanation:
    """Compute the attention of one query over three keys, small enough to check by hand.

    >>> worked_example().weights.round(4).tolist()
    [[0.4011, 0.1978, 0.4011]]
    >>> worked_example().output.round(4).tolist()
    [[16.0445, 3.9555]]
    """
    return reference.explain(QUERY, KEYS, VALUES)


def stop(presenter: Presenter) -> None:
    """Show the worked example with its numbers, a bar chart and a viewer."""
    explained = worked_example()
    presenter.say(BEFORE)
    presenter.verbatim(str(explained))
    presenter.say(AFTER)
    labels = [f"k{number}" for number in range(len(KEYS))]
    title = presenter.words(PICTURE)
    presenter.picture(
        "1-worked-example.png",
        lambda path: plots.plot_weights(explained.weights[0], labels, title=title, path=path),
        title,
    )
    presenter.view([_record(labels)], presenter.words(TITLE), height=480)


def _record(labels: list[str]):
    """Return the worked example as a record, whose scores and softmax the viewer shows step by step."""
    import torch

    from regard.core import attention
    from regard.maps import Record

    _, weights = attention(*map(torch.tensor, (QUERY, KEYS, VALUES)), return_map=True)
    return Record(name="q, k", layer=0, kind="cross", map=weights, query_tokens=[["q"]], key_tokens=[labels])
