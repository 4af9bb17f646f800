"""Inflection of the English and French words of scenes."""

from __future__ import annotations

import re

__all__ = ["article", "french_verb", "plural", "present", "with_article"]

# English verbs in -e, whose form in -ing has lost it.
_WITH_E_TEXT = (
    "riding dancing diving racing posing taking having shaking waving using driving practicing smiling smoking baking "
    "making raking staring exercising balancing hiking wrestling sliding juggling writing celebrating demonstrating "
    "paddling chasing preparing giving skating rollerblading wading leaving cycling biting "
    "closing"
)
_WITH_E = frozenset(_WITH_E_TEXT.split())
_DOUBLED = re.compile(r"([bdgmnprt])\1$")


def present(phrase: str, *, plural: bool) -> str:
    """Return an English verb phrase with -ing in the present tense.

    >>> present("riding a bike", plural=False), present("running", plural=True), present("carrying bags", plural=False)
    ('rides a bike', 'run', 'carries bags')
    """
    words = phrase.split(" ")
    place = 1 if words[0] == "ice" else 0
    gerund = words[place]
    base = gerund.removesuffix("ing")
    if gerund in _WITH_E:
        base += "e"
    elif gerund == "lying":
        base = "lie"
    elif _DOUBLED.search(base):
        base = base[:-1]
    if not plural:
        base = _third_person(base)
    return " ".join([*words[:place], base, *words[place + 1 :]])


def _third_person(base: str) -> str:
    if base == "do":
        return "does"
    if base == "have":
        return "has"
    if base.endswith(("ch", "sh", "ss", "x", "zz")):
        return base + "es"
    return base[:-1] + "ies" if re.search(r"[^aeiou]y$", base) else base + "s"


def plural(noun: str) -> str:
    """Return the plural of an English noun.

    >>> plural("dress"), plural("scarf"), plural("polo shirt")
    ('dresses', 'scarves', 'polo shirts')
    """
    if noun.endswith("scarf"):
        return noun[:-1] + "ves"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def article(noun: str) -> str:
    """Return the English indefinite article before a word.

    >>> article("orange shirt"), article("uniform")
    ('an', 'a')
    """
    return "an" if noun[0].lower() in "aeiou" and not noun.startswith(("uni", "use", "one")) else "a"


def with_article(noun: str) -> str:
    """Return an English noun phrase with its indefinite article."""
    return f"{article(noun)} {noun}"


def french_verb(text: str, *, plural: bool, participle: bool) -> str:
    """Return a French verb phrase in the third person, or its present participle.

    ``text`` has the singular, which is followed by ``/`` and the two other forms if the verb is irregular.

    >>> french_verb("mange une pomme", plural=True, participle=False)
    'mangent une pomme'
    >>> french_verb("se tient/tiennent/tenant debout", plural=False, participle=True)
    'se tenant debout'
    """
    pronoun = "se " if text.startswith("se ") else "s'" if text.startswith("s'") else ""
    head, _, rest = text.removeprefix(pronoun).partition(" ")
    forms = head.split("/")
    if len(forms) == 1:
        forms = [head, f"{head}nt", _participle(head)]
    verb = forms[2] if participle else forms[1] if plural else forms[0]
    return f"{pronoun}{verb} {rest}".rstrip()


def _participle(singular: str) -> str:
    """Return the present participle of a French verb in -er, from its third person."""
    stem = singular[:-1]
    if stem.endswith(("ai", "oi")):
        stem = stem[:-1] + "y"
    stem = re.sub(r"è([bcdfglmnprstv])$", r"e\1", stem)
    if stem.endswith("g"):
        stem += "e"
    return (stem[:-1] + "ç" if stem.endswith("c") else stem) + "ant"
