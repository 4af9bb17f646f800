"""The records of a capture as a sequence, with files, pictures and statistics."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from torch import Tensor

from regard.capture.joining.beams import Beams
from regard.capture.joining.records import LabelSources, build
from regard.capture.reading.labels import as_batch_labels
from regard.capture.record_statistics import RecordStatistics
from regard.errors import ArgumentError, DtypeError, OutsideError, UnknownNameError, former_names
from regard.maps import AttentionMap
from regard.maps.picture_maps import PictureMap
from regard.maps.record_files import load_records, save_records
from regard.maps.records import Record
from regard.maps.storage import bytes_held
from regard.shapes import axes, whole_number

if TYPE_CHECKING:
    from regard.capture.verification import Repeatable, Verified
    from regard.capture.watching.session import Session

__all__ = ["Recording"]

_KINDS = ("self", "causal", "cross")
_SHOWN = 8


class Recording(RecordStatistics):
    """The records of a capture, one for each attention, in the order of the calls.

    >>> import torch, regard
    >>> model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, batch_first=True), 2).eval()
    >>> with regard.capture(model) as seen:
    ...     out = model(torch.randn(3, 5, 8))
    >>> seen
    Recording of 2 records
      0  layers.0.self_attn  layer 0  self  (b,h,q,k) = (3,2,5,5)
      1  layers.1.self_attn  layer 1  self  (b,h,q,k) = (3,2,5,5)
    >>> seen[-1].layer, [record.name for record in seen.by(layer=0)]
    (1, ['layers.0.self_attn'])
    """

    def __init__(self, records: Sequence[Record] = ()):
        self._records: list[Record] | None = list(records)
        self._session: Session | None = None
        self._naming = LabelSources()
        self._beams: Beams | None = None
        self._capture: Repeatable | None = None
        self._built_at = -1

    @classmethod
    def _of(cls, capture: Repeatable, session: Session, naming: LabelSources) -> Recording:
        made = cls()
        made._capture, made._session, made._naming, made._records = capture, session, naming, None
        return made

    @staticmethod
    @former_names(tokens="query_tokens")
    def from_weights(
        layers: Any,
        query_tokens: Sequence[Any] | None = None,
        key_tokens: Sequence[Any] | None = None,
        *,
        kind: str | None = None,
        unnormalized: bool = False,
    ) -> Recording:
        """Make records from existing weights, an array or a tensor, or a list with one for each layer.

        ``outputs.attentions`` of a Hugging Face model is such a list. ``query_tokens`` label the rows and
        ``key_tokens`` the columns. Without ``key_tokens`` the weights are self-attention, and ``query_tokens`` label
        both. If ``kind`` is not given, it is "cross" for ``key_tokens`` or for different numbers of queries and keys,
        "causal" for weights that are 0 above the diagonal, and "self" otherwise. ``unnormalized`` accepts weights
        below 0 and rows with a sum above 1, as :meth:`AttentionMap.from_weights` does.

        >>> import numpy as np
        >>> Recording.from_weights((np.full((1, 2, 3, 3), 1 / 3), np.eye(3)), ["the", "cat", "sat"])
        Recording of 2 records
          0  0  layer 0  self  (b,h,q,k) = (1,2,3,3)
          1  1  layer 1  causal  (b,h,q,k) = (1,1,3,3)
        """
        from regard.analysis._layers import as_maps

        if kind is not None:
            _check_kind(kind)
        maps = as_maps("layers", layers, unnormalized=unnormalized)
        records = Recording(
            [
                Record(name=str(n), layer=n, kind=kind or _kind_of(one, key_tokens is not None), map=one)
                for n, one in enumerate(maps)
            ]
        )
        if query_tokens is None and key_tokens is None:
            return records
        return records.label(query_tokens, key_tokens)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the records, for copies and other processes. As in a file, they have no model to verify."""
        return Recording, (list(self.records),)

    # ---- a sequence

    @property
    def records(self) -> list[Record]:
        """All records, which are built when they are first read."""
        session = self._session
        if session is not None and (self._records is None or self._built_at != session.collector.changes):
            self._records = build(session.collector, self._naming, self._beams)
            self._built_at = session.collector.changes
        return self._records or []

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    @overload
    def __getitem__(self, index: int | str) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Recording: ...
    def __getitem__(self, index: int | str | slice) -> Record | Recording:
        """Return a record by its index or by the name of its module, or several records by a slice."""
        if isinstance(index, slice):
            try:
                return self._part(self.records[index])
            except (TypeError, ValueError) as error:
                raise ArgumentError("index", f"{index} cannot be used: {error}") from None
        if isinstance(index, str):
            found = [record for record in self.records if record.name == index]
            if not found:
                raise UnknownNameError("name", index, dict.fromkeys(r.name for r in self.records))
            if len(found) > 1:
                raise ArgumentError(
                    "name", f"{len(found)} records are of {index}", f"use .by(name={index!r})"
                )
            return found[0]
        if not isinstance(index, int):
            raise DtypeError("index", f"expected a number, a name or a slice, got {index!r}")
        if not -len(self) <= index < len(self):
            raise OutsideError("index", f"record {index} of {len(self)}")
        return self.records[index]

    def by(
        self,
        *,
        layer: int | Iterable[int] | None = None,
        kind: str | None = None,
        name: str | None = None,
    ) -> Recording:
        """Return the records of some layers, of one kind, or of modules whose name contains ``name``.

        Negative layer numbers count from the end.
        """
        if kind is not None:
            _check_kind(kind)
        if not isinstance(name, str | None):
            raise DtypeError("name", f"expected a part of the name of a module, got {type(name).__name__}")
        layers = None if layer is None else self._layers(layer)
        return self._part(
            [
                record
                for record in self.records
                if (layers is None or record.layer in layers)
                and (kind is None or record.kind == kind)
                and (name is None or name in record.name)
            ]
        )

    def _layers(self, wanted: int | Iterable[int]) -> set[int]:
        """Return layer numbers counted from the start, or raise ArgumentError for a layer without a record."""
        recorded = sorted({record.layer for record in self.records if record.layer is not None})
        layers = set()
        if isinstance(wanted, str | bytes | Tensor):
            raise DtypeError("layer", f"expected a number or numbers, got {wanted!r}")
        for number in wanted if isinstance(wanted, Iterable) else [wanted]:
            number = whole_number("layer", number)
            layer = number + recorded[-1] + 1 if number < 0 and recorded else number
            if layer not in recorded:
                raise ArgumentError("layer", f"there is no record of layer {number}", f"there are {recorded}")
            layers.add(layer)
        return layers

    def _part(self, records: Sequence[Record]) -> Recording:
        part = Recording(records)
        part._capture = self._capture
        return part

    def __repr__(self) -> str:
        records = self.records
        lines = [_line(n, record) for n, record in enumerate(records[:_SHOWN])]
        if len(records) > _SHOWN:
            lines.append(f"  ... and {len(records) - _SHOWN} more")
        return "\n".join([f"Recording of {len(records)} record{'s' * (len(records) != 1)}", *lines])

    @property
    def nbytes(self) -> int:
        """The number of bytes of all maps. A tensor that several maps share, such as the bias of T5, counts once."""
        return bytes_held(*(record.map._source for record in self.records))

    @property
    def dropped(self) -> list[str]:
        """For each incomplete record, its name and the reason."""
        return [f"{record.name}: {record.dropped}" for record in self.records if record.dropped]

    @property
    def unseen(self) -> list[str]:
        """The names of modules whose attention ran and was not recorded.

        ``capture(model, modules=...)`` records those that compute a softmax. The weights of others cannot be read.
        """
        return [] if self._session is None else self._session.log.unseen.names

    # ---- words

    @former_names(tokens="query_tokens")
    def label(
        self, query_tokens: Sequence[Any] | None = None, key_tokens: Sequence[Any] | None = None
    ) -> Recording:
        """Return the records with other labels, one list of words or a list of words for each sequence.

        ``query_tokens`` label every axis that has as many tokens, so in self-attention they label the keys as well.
        ``key_tokens`` label the keys of cross-attention, and the self-attention of the encoder that these keys come
        from.
        """
        naming = LabelSources(
            query_tokens=as_batch_labels("query_tokens", query_tokens),
            key_tokens=as_batch_labels("key_tokens", key_tokens),
        )
        naming.check(self.records)
        return self._part([naming.relabel(record) for record in self.records])

    def words(self, batch: int = 0) -> Recording:
        """Return the records of one sequence with word pieces joined to words.

        >>> import numpy as np
        >>> pieces = Recording.from_weights(np.full((3, 3), 1 / 3), ["a", "mat", "##ador"])
        >>> pieces.words()[0].tokens
        [['a', 'matador']]
        """
        from regard.analysis import as_words

        return self._part([as_words(record, batch) for record in self._whole()])

    # ---- pictures

    def picture_map(
        self,
        word: str | int,
        *,
        layer: int | None = None,
        head: int | None = None,
        batch: int = 0,
        picture: int = 0,
        view: str = "whole",
        without_sinks: bool = False,
    ) -> PictureMap:
        """Return the weights of one word over the patches of a picture that a vision-language model was given.

        ``word`` is a label or a position among the tokens. Without ``layer`` and ``head``, the weights are the mean
        over all layers and heads of the language model. ``picture`` is the number of the picture in its sequence.
        ``view="tiles"`` chooses the patches of the tiles that a model has beside those of the whole picture.
        ``without_sinks=True`` takes out sink patches, which nearly every word attends to. The map has the places of
        its patches in pixels. Raises ArgumentError, with the reason, if the places are not known.
        """
        from regard.capture.picture_maps import picture_maps_of

        chosen = {"layer": layer, "head": head, "batch": batch, "picture": picture, "view": view}
        return picture_maps_of(self.records, word, without_sinks=without_sinks, **chosen)[0]

    def picture_maps(
        self,
        *,
        layer: int | None = None,
        head: int | None = None,
        batch: int = 0,
        picture: int = 0,
        view: str = "whole",
        without_sinks: bool = False,
    ) -> list[PictureMap]:
        """Return the maps of all words of a sequence over a picture, as :meth:`picture_map` does for one word."""
        from regard.capture.picture_maps import picture_maps_of

        chosen = {"layer": layer, "head": head, "batch": batch, "picture": picture, "view": view}
        return picture_maps_of(self.records, None, without_sinks=without_sinks, **chosen)

    # ---- beams

    def follow(self, output: Any) -> Recording:
        """Return the records of the hypotheses that a beam search returned.

        ``output`` is the result of ``model.generate(..., num_beams=..., return_dict_in_generate=True)``, or its
        ``beam_indices``. The maps have one entry for each returned sequence. Rows after the end of a sequence are 0.
        """
        indices = getattr(output, "beam_indices", output)
        if not isinstance(indices, Tensor) or indices.ndim != 2:
            raise ArgumentError(
                "output",
                f"expected the output of a beam search, got {type(output).__name__} without beam_indices",
                "call generate(..., num_beams=n, return_dict_in_generate=True)",
            )
        if self._session is None:
            raise ArgumentError(
                "output", "these records were cut or loaded", "call follow() on the recording of capture()"
            )
        rows = max(
            (kept.grid.b for chain in self._session.collector.chains for kept in chain.calls), default=0
        )
        if indices.numel() and int(indices.max()) >= rows:
            problem = f"expected the beam_indices of a search with {rows} rows, got numbers up to {int(indices.max())}"
            raise ArgumentError(
                "output", problem, "call generate(..., num_beams=n, return_dict_in_generate=True)"
            )
        followed = Recording._of(self._capture, self._session, self._naming)  # type: ignore[arg-type]
        followed._beams = Beams(indices)
        return followed

    # ---- verification

    def verify(self, *args: Any, **kwargs: Any) -> Verified:
        """Run the model on the arguments twice, once plain and once captured, and compare the outputs.

        ``verify(inputs)`` calls ``model(inputs)``. The result holds the largest difference of the outputs, and the
        largest distance of the sum of a row of the maps from 1.
        """
        from regard.capture.verification import verify

        if self._capture is None:
            raise ArgumentError(
                "verify", "these records have no model", "call verify() on the recording of capture()"
            )
        return verify(self._capture, args, kwargs)

    # ---- files and pictures

    def save(self, path: str | os.PathLike, *, as_weights: bool = False) -> None:
        """Write all records to one safetensors file, which ``regard view`` and :meth:`load` read.

        ``as_weights`` writes the full weights, which a map with a callable as its score needs.
        """
        save_records(self.records, path, as_weights=as_weights)

    @staticmethod
    def load(path: str | os.PathLike) -> Recording:
        """Read records that :meth:`save` wrote."""
        return Recording(load_records(path))

    def save_html(
        self,
        path: str | os.PathLike,
        *,
        title: str | None = None,
        images: object = None,
        language: str = "en",
    ) -> None:
        """Write the records to one self-contained HTML page, which opens in a browser without a network.

        ``images`` are drawn below the attention of image models. There is one for each sequence of the batch, or for a
        vision-language model one for each picture, as a file, a PIL image or an array. ``language`` is that of the
        buttons and messages, "en" or "zh".
        """
        from regard import viewer

        viewer.save_html(self.records, path, title=title, images=images, language=language)

    def show(
        self,
        *,
        title: str | None = None,
        images: object = None,
        height: int = 640,
        language: str = "en",
    ) -> Any:
        """Return the interactive views of the records as a widget, which a notebook displays as the result of a cell.

        :func:`regard.show` returns a picture in the same way. In a script neither displays, writes or prints
        anything. :meth:`save_html` writes the views to a page. ``height`` is in pixels, and ``images`` and
        ``language`` are as for :meth:`save_html`.
        """
        from regard import viewer

        return viewer.widget(self.records, title=title, images=images, height=height, language=language)


def _check_kind(kind: object) -> None:
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UnknownNameError("kind", kind, _KINDS)


def _kind_of(weights: AttentionMap, has_key_tokens: bool) -> str:
    q, k = weights.shape[2:]
    if q != k or has_key_tokens:
        return "cross"
    return "causal" if q > 1 and not bool(weights.weights().triu(1).any()) else "self"


def _line(n: int, record: Record) -> str:
    layer = "" if record.layer is None else f"  layer {record.layer}"
    remarks = [remark for remark in (record.dropped, record.note) if remark]
    note = f"  ({'; '.join(remarks)})" if remarks else ""
    return f"  {n}  {record.name}{layer}  {record.kind}  (b,h,q,k) = {axes(record.map.shape)}{note}"
