"""The analyses of :mod:`regard.analysis` as methods of what was seen."""

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
    """Records with the numbers that people ask of them.

    What goes through all layers (rollout, flow, agreement) needs records between the same tokens; of a model that has
    several kinds of attention, take one: ``seen.by(kind="self").rollout()``. Records that were dropped altogether
    have no numbers and are left out of tables; ``seen.dropped`` names them. Rollout and flow refuse to do without them.

    Means leave out the queries that see nothing and those of padding (in self-attention, queries whose own key the mask
    hides from all); ``entropy`` and ``distance`` have a number for every query.
    """

    def _whole(self) -> list[Record]:
        """The records that have a map. Those that were dropped altogether have none."""
        return [record for record in self if not isinstance(record.map._source, Unrecorded)]

    def entropy(self) -> list[np.ndarray]:
        """How wide each query looks, in nats, ``(b,h,q)`` of each record.

        >>> from regard.capture import Recording
        >>> Recording.from_weights(np.array([[1.0, 0.0], [0.5, 0.5]])).entropy()[0].round(3)
        array([[[0.   , 0.693]]])
        """
        from regard.analysis import entropy

        return [entropy(record) for record in self._whole()]

    def distance(self) -> list[np.ndarray]:
        """How far each query looks on average, in tokens, ``(b,h,q)`` of each record.

        >>> from regard.capture import Recording
        >>> Recording.from_weights(np.array([[1.0, 0.0], [0.5, 0.5]])).distance()
        [array([[[0. , 0.5]]])]
        """
        from regard.analysis import distance

        return [distance(record) for record in self._whole()]

    def received(self) -> list[np.ndarray]:
        """The mean weight that each key gets from a query, ``(b,h,k)`` of each record.

        >>> from regard.capture import Recording
        >>> Recording.from_weights(np.array([[1.0, 0.0], [0.5, 0.5]])).received()
        [array([[[0.75, 0.25]]])]
        """
        from regard.analysis import received

        return [received(record) for record in self._whole()]

    def sink_mass(self, key: int = 0) -> list[np.ndarray]:
        """The mean weight on one key, the first by default, ``(b,h)`` of each record.

        >>> from regard.capture import Recording
        >>> Recording.from_weights(np.array([[0.9, 0.1], [0.7, 0.3]])).sink_mass()
        [array([[0.8]])]
        """
        from regard.analysis import sink_mass

        return [sink_mass(record, key) for record in self._whole()]

    def alignments(self, batch: int = 0) -> list[set[tuple[int, int]]]:
        """Links ``(key, query)`` of each record, from each query to its key of the largest weight, averaged over heads.

        >>> from regard.capture import Recording
        >>> [sorted(links) for links in Recording.from_weights(np.array([[0.9, 0.1], [0.2, 0.8]])).alignments()]
        [[(0, 0), (1, 1)]]
        """
        from regard.analysis import alignment_links

        return [alignment_links(record, batch) for record in self._whole()]

    def head_table(self) -> Any:
        """A table with the entropy, distance, weight on the first key and largest weight of each head.

        A pandas ``DataFrame`` where pandas is installed, else a list of dictionaries.

        >>> from regard.capture import Recording
        >>> table = Recording.from_weights([np.eye(3), np.full((3, 3), 1 / 3)]).head_table()
        >>> len(table)
        2
        """
        from regard.analysis import head_table

        return head_table(self._whole())

    def top_links(self, n: int = 10) -> list[WeightedLink]:
        """The n largest weights of all records, largest first, with their tokens.

        >>> from regard.capture import Recording
        >>> seen = Recording.from_weights(np.array([[0.9, 0.1], [0.3, 0.7]]), ["the", "cat"])
        >>> [(link.query_token, link.key_token, link.weight) for link in seen.top_links(2)]
        [('the', 'the', 0.9), ('cat', 'cat', 0.7)]
        """
        from regard.analysis import top_links

        return top_links(self._whole(), n)

    def head_agreement(self) -> np.ndarray:
        """The similarity of the heads of all records, ``(heads, heads)``, 1 for the same weights.

        >>> from regard.capture import Recording
        >>> Recording.from_weights([np.eye(2), np.eye(2)[::-1]]).head_agreement()
        array([[1., 0.],
               [0., 1.]])
        """
        from regard.analysis import head_agreement

        return head_agreement(self._whole())

    def cluster_heads(self, count: int) -> np.ndarray:
        """Heads that look alike under one number, ``(heads,)``, in ``count`` groups.

        >>> from regard.capture import Recording
        >>> Recording.from_weights([np.eye(2), np.eye(2)[::-1], np.eye(2)]).cluster_heads(2)
        array([0, 1, 0])
        """
        from regard.analysis import cluster_heads

        return cluster_heads(self._whole(), count)

    def rollout(self, *, residual: float = 0.5) -> np.ndarray:
        """The share of each token before the first of these layers in each token after the last, ``(b,q,k)``.

        >>> from regard.capture import Recording
        >>> Recording.from_weights([np.array([[1.0, 0.0], [1.0, 0.0]])] * 2).rollout()[0]
        array([[1.  , 0.  ],
               [0.75, 0.25]])
        """
        from regard.analysis import rollout

        return rollout(list(self), residual=residual)

    def flow(self, queries: Iterable[int] | None = None, *, residual: float = 0.5) -> np.ndarray:
        """The largest flow from each token before the first of these layers to the tokens ``queries`` after the last,
        ``(b,queries,k)``.

        >>> from regard.capture import Recording
        >>> Recording.from_weights([np.array([[1.0, 0.0], [1.0, 0.0]])] * 2).flow(queries=[1])[0]
        array([[1. , 0.5]])
        """
        from regard.analysis import flow

        return flow(list(self), queries, residual=residual)
