"""The Chinese words of a clause with an adjective as its predicate (很高, 比他更高, 是红色的, 生病了)."""

from __future__ import annotations

from collections.abc import Callable

from regard.corpus.meaning import Clause, Phrase, Quality

__all__ = ["adjective_words", "copula_negation"]

Word = tuple[str, int, int]  # text, sure units, possible units


def adjective_words(clause: Clause, quality: Quality) -> list[Word | Phrase]:
    """Return the words of the predicate in order, in which the second part of a comparison is still a phrase."""
    order = next(order for applies, order in _ORDERS if applies(clause, quality))
    return [word for part in order.split() for word in _PARTS[part](clause, quality)]


def copula_negation(clause: Clause) -> list[Word]:
    """Return 不 or 从不 if the copula is negated, and nothing in the future, where 不会 negates it."""
    return [("从不" if clause.often else "不", clause.negative, 0)] if _is_negated(clause) else []


def _is_negated(clause: Clause) -> bool:
    return bool(clause.negative) and clause.tense != "future"


def _is_attributive(clause: Clause) -> bool:
    """Return whether 的 follows the clause, because it is a relative clause (红色的汽车) or stands before 的时候."""
    return clause.head is not None or clause.during


def _is_new_state(clause: Clause) -> bool:
    """Return whether 了 ends the clause (他生病了)."""
    return not (_is_attributive(clause) or clause.often or clause.negative or clause.tense == "future")


# The order of the words. The first row whose condition holds is used.
_ORDERS: tuple[tuple[Callable[[Clause, Quality], bool], str], ...] = (
    # 比他更高
    (lambda clause, quality: quality.than is not None, "不 比 other 更 is_adjective"),
    # 红色(的汽车)
    (
        lambda clause, quality: (
            quality.adjective.style == "shi" and clause.head is not None and not _is_negated(clause)
        ),
        "is_adjective",
    ),
    # 不是红色(的汽车), 是红色(的时候)
    (
        lambda clause, quality: quality.adjective.style == "shi" and _is_attributive(clause),
        "不 是 adjective",
    ),
    # 是红色的
    (lambda clause, quality: quality.adjective.style == "shi", "不 是 adjective 的"),
    # 生病了
    (
        lambda clause, quality: quality.adjective.style == "le" and _is_new_state(clause),
        "is_adjective 了",
    ),
    # 没有生病
    (lambda clause, quality: quality.adjective.style == "le", "没有 is_adjective"),
    # 太高了, 非常高
    (lambda clause, quality: quality.degree is not None, "不 degree is_adjective after_degree"),
    # 不高, and with the 不会 of the future 不会高
    (lambda clause, quality: bool(clause.negative), "不 is_adjective"),
    # 高(吗)
    (lambda clause, quality: bool(clause.ask), "is_adjective"),
    # 很高
    (lambda clause, quality: True, "很 adjective"),
)


def _no_new_state(clause: Clause, quality: Quality) -> list[Word]:
    if not _is_negated(clause):
        return []
    return [("从不" if clause.often else "没有", clause.negative, clause.unit)]


def _degree(clause: Clause, quality: Quality) -> list[Word]:
    return [(quality.degree.zh, quality.degree_unit, 0)] if quality.degree else []


def _after_degree(clause: Clause, quality: Quality) -> list[Word]:
    """Return the second part of a degree such as 太…了."""
    if (
        not (quality.degree and quality.degree.zh_after)
        or clause.head is not None
        or clause.tense == "future"
    ):
        return []
    return [(quality.degree.zh_after, 0, quality.degree_unit)]


# The words of each part of an order. ``is_adjective`` also stands for the English copula, for which 是 and 很 stand
# before ``adjective``.
_PARTS: dict[str, Callable[[Clause, Quality], list[Word | Phrase] | list[Word]]] = {
    "不": lambda clause, quality: copula_negation(clause),
    "没有": _no_new_state,
    "是": lambda clause, quality: [("是", clause.unit, 0)],
    "很": lambda clause, quality: [("很", 0, clause.unit | quality.unit)],
    "比": lambda clause, quality: [("比", quality.than_unit, 0)],
    "other": lambda clause, quality: [quality.than] if quality.than else [],
    "更": lambda clause, quality: [("更", quality.degree_unit, 0)],
    "degree": _degree,
    "after_degree": _after_degree,
    "adjective": lambda clause, quality: [(quality.adjective.zh, quality.unit, 0)],
    "is_adjective": lambda clause, quality: [(quality.adjective.zh, quality.unit, clause.unit)],
    "的": lambda clause, quality: [("的", 0, quality.unit | clause.unit)],
    "了": lambda clause, quality: [("了", 0, quality.unit | clause.unit)],
}
