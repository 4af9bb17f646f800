"""The functions of :mod:`regard.analysis` as methods of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.maps.records import Record
from regard.maps.unrecorded import Unrecorded

if TYPE_CHECKING:
    from regard.analysis.heads import WeightedLink

__all__ = ["RecordStatistics"]


class RecordStatistics(Sequence[Record]):
    """A sequence of records with methods for their statistics.

    Rollout, flow and agreement need records between the same tokens. If a model has several kinds of attention, choose
    one, as in ``seen.by(kind="self").rollout()``. Records whose map was dropped are left out, and ``seen.dropped``
    names them. For rollout and flow they are an error.

    Means leave out fully masked queries and padding queries. A padding query of self-attention is one whose own key the
    mask hides from every query. ``entropy`` and ``distance`` have a number for every query.
    """

    def _whole(self) -> list[Record]:
        """Return the records whose map was not dropped."""
        return [record for record in self if not isinstance(record.map._source, Unrecorded)]

    def entropy(self) -> list[np.ndarray]:
        """Return the entropy of the weights of each query in nats, ``(b,h,q)`` for each record.

        >>> from regard.capture import Recording
        >>> Recording.from_weights(np.array([[1.0, 0.0], [0.5, 0.5]])).entropy()[0].round(3)
        array([[[0.   , 0.693]]])
        """
        from regard.analysis import entropy

        return [entropy(record) for record in self._whole()]

    def distance(self) -> list[np.ndarray]:
        """Return the mean distance in tokens from each query to its keys, ``(b,h,q)`` for each record.

        >>> from regard.capture import Recording
        >>> Recording.from_weights(np.array([[1.0, 0.0], [0.5, 0.5]])).distance()
        [array([[[0. , 0.5]]])]
        """
        from regard.analysis import distance

        return [distance(record) for record in self._whole()]

    def received(self) -> list[np.ndarray]:
        """Return the mean weight that each key receives over the queries, ``(b,h,k)`` for each record.

        >>> from regard.capture import Recording
        >>> Recording.from_weights(np.array([[1.0, 0.0], [0.5, 0.5]])).received()
        [array([[[0.75, 0.25]]])]
        """
        from regard.analysis import received

        return [received(record) for record in self._whole()]

    def sink_mass(self, key: int = 0) -> list[np.ndarray]:
        """Return the mean weight on one key, by default the first, ``(b,h)`` for each record.

        >>> from regard.capture import Recording
        >>> Recording.from_weights(np.array([[0.9, 0.1], [0.7, 0.3]])).sink_mass()
        [array([[0.8]])]
        """
        from regard.analysis import sink_mass

        return [sink_mass(record, key) for record in self._whole()]

    def alignments(self, batch: int = 0) -> list[set[tuple[int, int]]]:
        """Return a link ``(key, query)`` from each query to the key with the largest mean weight of all heads.

        The result has one set of links for each record.

        >>> from regard.capture import Recording
        >>> [sorted(links) for links in Recording.from_weights(np.array([[0.9, 0.1], [0.2, 0.8]])).alignments()]
        [[(0, 0), (1, 1)]]
        """
        from regard.analysis import alignment_links

        return [alignment_links(record, batch) for record in self._whole()]

    def head_table(self) -> Any:
        """Return a table with the entropy, distance, weight on the first key and largest weight of each head.

        It is a pandas ``DataFrame`` if pandas is installed, and otherwise a list of dictionaries.

        >>> from regard.capture import Recording
        >>> table = Recording.from_weights([np.eye(3), np.full((3, 3), 1 / 3)]).head_table()
        >>> len(table)
        2
        """
        from regard.analysis import head_table

        return head_table(self._whole())

    def top_links(self, n: int = 10) -> list[WeightedLink]:
        """Return the n largest weights of all records, largest first, with their tokens.

        >>> from regard.capture import Recording
        >>> seen = Recording.from_weights(np.array([[0.9, 0.1], [0.3, 0.7]]), ["the", "cat"])
        >>> [(link.query_token, link.key_token, link.weight) for link in seen.top_links(2)]
        [('the', 'the', 0.9), ('cat', 'cat', 0.7)]
        """
        from regard.analysis import top_links

        return top_links(self._whole(), n)

    def head_agreement(self) -> np.ndarray:
        """Return the similarity of every pair of heads, ``(heads, heads)``, which is 1 for equal weights.

        >>> from regard.capture import Recording
        >>> Recording.from_weights([np.eye(2), np.eye(2)[::-1]]).head_agreement()
        array([[1., 0.],
               [0., 1.]])
        """
        from regard.analysis import head_agreement

        return head_agreement(self._whole())

    def cluster_heads(self, count: int) -> np.ndarray:
        """Group the heads of all records into ``count`` clusters by the similarity of their weights.

        The result ``(heads,)`` is the cluster of each head, with the heads of the first record first. Clusters are
        numbered by their first heads. A ``count`` above the number of heads raises ArgumentError.

        >>> from regard.capture import Recording
        >>> Recording.from_weights([np.eye(2), np.eye(2)[::-1], np.eye(2)]).cluster_heads(2)
        array([0, 1, 0])
        """
        from regard.analysis import cluster_heads

        return cluster_heads(self._whole(), count)

    def rollout(self, *, residual: float = 0.5) -> np.ndarray:
        """Return the attention rollout, the share of each input token in each output token, ``(b,q,k)``.

        >>> from regard.capture import Recording
        >>> Recording.from_weights([np.array([[1.0, 0.0], [1.0, 0.0]])] * 2).rollout()[0]
        array([[1.  , 0.  ],
               [0.75, 0.25]])
        """
        from regard.analysis import rollout

        return rollout(list(self), residual=residual)

    def flow(self, queries: Iterable[int] | None = None, *, residual: float = 0.5) -> np.ndarray:
        """Return the maximum flow from each input token to the output tokens ``queries``, ``(b,queries,k)``.

        >>> from regard.capture import Recording
        >>> Recording.from_weights([np.array([[1.0, 0.0], [1.0, 0.0]])] * 2).flow(queries=[1])[0]
        array([[1. , 0.5]])
        """
        from regard.analysis import flow

        return flow(list(self), queries, residual=residual)
