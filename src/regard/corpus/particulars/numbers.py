"""Numbers, times, prices, codes and addresses as they are written in an English text."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from regard.corpus.particulars.names import fresh, place_name

__all__ = ["KINDS", "number_like", "value"]

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_STREETS = ("Street", "Road", "Avenue", "Lane", "Drive", "Boulevard", "Court", "Way", "Place", "Square")


def _digits(random: Random, count: int) -> str:
    return str(random.randrange(10 ** (count - 1), 10**count))


def _letters(random: Random, count: int) -> str:
    return "".join(random.choice(_LETTERS) for _ in range(count))


def _number(random: Random) -> str:
    length = random.choice((2, 2, 3, 3, 3, 4, 5, 6))
    text = _digits(random, length)
    return f"{int(text):,}" if length > 4 or (length == 4 and random.random() < 0.6) else text


def _price(random: Random) -> str:
    amount = int(_digits(random, random.choice((1, 2, 2, 3, 3, 4, 5))))
    sign = random.choice(("$", "$", "$", "€", "£"))
    cents = random.random() < 0.6
    return f"{sign}{amount:,}.{random.randrange(100):02}" if cents else f"{sign}{amount:,}"


def _decimal(random: Random) -> str:
    return f"{random.randrange(1, 500)}.{_digits(random, random.choice((1, 1, 2)))}"


def _phone(random: Random) -> str:
    three, four = _digits(random, 3), f"{random.randrange(10_000):04}"
    forms = (
        lambda: f"{_digits(random, 3)}-{three}-{four}",
        lambda: f"({_digits(random, 3)}) {three}-{four}",
        lambda: f"+{_digits(random, 2)} {_digits(random, 3)} {three} {four}",
        lambda: f"0{_digits(random, 1)} " + " ".join(f"{random.randrange(100):02}" for _ in range(4)),
        lambda: f"{three}-{four}",
        lambda: _digits(random, 10),
    )
    return random.choice(forms)()


def _code(random: Random) -> str:
    forms = (
        lambda: f"{_letters(random, 2)}-{_digits(random, 4)}-{_letters(random, 1)}",
        lambda: f"{_letters(random, random.choice((1, 2, 3)))}{_digits(random, random.choice((3, 4, 5)))}",
        lambda: f"{_digits(random, 3)}-{_letters(random, 3)}-{_digits(random, 2)}",
        lambda: f"#{_digits(random, random.choice((4, 5, 6)))}",
        lambda: f"{_letters(random, 3)}-{_digits(random, 6)}",
        lambda: f"{_letters(random, 1)}{_digits(random, 2)}/{_digits(random, 4)}",
    )
    return random.choice(forms)()


def _flight(random: Random) -> str:
    return f"{_letters(random, 2)}{random.choice(('', ' '))}{_digits(random, random.choice((3, 4)))}"


def _room(random: Random) -> str:
    return _digits(random, random.choice((2, 3, 3, 4))) + random.choice(("", "", "", "A", "B", "C"))


def _street(random: Random, split: str) -> str:
    return f"{place_name(random, split)} {random.choice(_STREETS)}"


def _clock(random: Random) -> str:
    return f"{random.randrange(1, 13)}:{random.randrange(60):02}"


def _version(random: Random) -> str:
    parts = [str(random.randrange(1, 30)) for _ in range(random.choice((2, 3)))]
    return ".".join(parts)


def _score(random: Random) -> str:
    return f"{random.randrange(0, 130)}-{random.randrange(0, 130)}"


def _plate(random: Random) -> str:
    return f"{_letters(random, 2)}-{_digits(random, 3)}-{_letters(random, 2)}"


def _temperature(random: Random) -> str:
    return random.choice(("", "", "", "-")) + str(random.randrange(1, 120))


# The kinds of particulars that are made of digits, letters and signs.
KINDS: dict[str, Callable[[Random], str]] = {
    "age": lambda random: str(random.randrange(2, 105)),
    "small": lambda random: str(random.randrange(11, 100)),
    "number": _number,
    "year": lambda random: str(random.randrange(1400, 2100)),
    "day": lambda random: str(random.randrange(1, 32)),
    "time": _clock,
    "hour24": lambda random: f"{random.randrange(13, 24)}:{random.randrange(60):02}",
    "price": _price,
    "percent": lambda random: random.choice((f"{random.randrange(1, 100)}%", f"{_decimal(random)}%")),
    "decimal": _decimal,
    "phone": _phone,
    "code": _code,
    "flight": _flight,
    "room": _room,
    "platform": lambda random: str(random.randrange(1, 30)) + random.choice(("", "", "A", "B", "C")),
    "gate": lambda random: random.choice("ABCDEF") + str(random.randrange(1, 80)),
    "version": _version,
    "score": _score,
    "plate": _plate,
    "temperature": _temperature,
}


def value(random: Random, kind: str, split: str) -> str:
    """Return a value of one of the :data:`KINDS`, a "street" or an "address", of the split "train" or "test".

    >>> value(Random(1), "price", "train")
    '$82.63'
    """
    if kind == "street":
        return _street(random, split)
    if kind == "address":
        house = fresh(lambda: _digits(random, random.choice((1, 2, 2, 3, 3, 4))), split)
        return f"{house} {_street(random, split)}"
    return fresh(lambda: KINDS[kind](random), split)


def number_like(random: Random, text: str, split: str) -> str:
    """Return another number of the same form, in which each digit is replaced and other signs stay.

    >>> number_like(Random(3), "1,299.99", "train")
    '3,982.59'
    """

    def make() -> str:
        digits = [random.choice("0123456789") if sign.isdigit() else sign for sign in text]
        if text[0] not in "0" and digits[0] == "0":
            digits[0] = random.choice("123456789")
        return "".join(digits)

    return fresh(make, split)
