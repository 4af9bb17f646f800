"""The subjects of scenes, people in their clothes and animals, in three languages."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from regard.corpus.scenes.inflection import article, plural, with_article
from regard.corpus.scenes.words import HEADWEAR, Adjective, Clothing, Noun, Thing, words

__all__ = ["CHILDREN", "Subject", "make_subject", "make_thing"]

_NUMBERS = (("two", "deux", "两"), ("three", "trois", "三"), ("four", "quatre", "四"), ("five", "cinq", "五"))
_FEATURES = (
    ("with long hair", "aux cheveux longs", "长头发的"),
    ("with short hair", "aux cheveux courts", "短头发的"),
    ("with curly hair", "aux cheveux bouclés", "卷发的"),
    ("with red hair", "aux cheveux roux", "红头发的"),
    ("with blond hair", "aux cheveux blonds", "金发的"),
    ("with brown hair", "aux cheveux bruns", "棕发的"),
    ("with a beard", "avec une barbe", "留着胡子的"),
    ("with glasses", "avec des lunettes", "戴眼镜的"),
    ("with a ponytail", "avec une queue de cheval", "扎马尾辫的"),
    ("with tattoos", "avec des tatouages", "有纹身的"),
)
_MEN_ONLY = frozenset(("with a beard", "bald", "bearded", "shirtless", "tie", "suit"))
_WOMEN_ONLY = frozenset(("dress", "skirt", "blouse", "bikini", "with a ponytail", "brunette", "blonde"))
# Chinese adjectives before a noun without 的.
_JOINED = frozenset(["小", "大", "中年", "金发", "秃头", "亚洲", "非洲", "印度", "棕发", "灰发"])


class Subject(NamedTuple):
    """A noun phrase. ``chinese`` has what stands before and after the place of a further modifier."""

    english: str
    french: str
    chinese: tuple[str, str]
    plural: bool  # of the French verb
    english_plural: bool
    gender: str


def make_subject(random: Random, *, animal: bool = False) -> Subject:
    """Return a subject such as "two young men in red shirts"."""
    draw = random.random()
    if draw < 0.04 and not animal:
        return _couple(random)
    noun = _animal(random) if animal else random.choice(_people(random))
    count = (
        "one"
        if draw < 0.66
        else "number"
        if draw < 0.82
        else random.choice(("several", "some", "group", "bare"))
    )
    return _phrase(random, noun, count, animal)


def _animal(random: Random) -> Noun:
    # The first two, dog and puppy, are the most frequent.
    return random.choice(words().animals[:2] if random.random() < 0.6 else words().animals)


def _people(random: Random) -> tuple[Noun, ...]:
    # The first seven, such as man and woman, are by far the most frequent.
    return words().people[:7] if random.random() < 0.65 else words().people


def _form(gender: str, many: bool) -> int:
    """Return the index of the form of a French adjective."""
    return (gender == "f") + 2 * many


def _phrase(random: Random, noun: Noun, count: str, animal: bool) -> Subject:
    many = count != "one"
    look = _look(random, noun, animal)
    clothing = None if animal else _clothing(random, noun, many)
    english = noun.english_plural if many else noun.english
    french = noun.french_plural if many else noun.french
    chinese = noun.chinese
    if look is not None:
        english = f"{look.english} {english}"
        french = _with_adjective(french, look, _form(noun.gender, many))
        chinese = look.chinese + ("" if look.chinese in _JOINED else "的") + chinese
    before_noun = look is not None and look.before
    english, french, start = _counted(random, count, english, french, noun, before_noun)
    if clothing is not None:
        english, french = f"{english} {clothing[0]}", f"{french} {clothing[1]}"
        start = (start[0] + clothing[2], start[1])
    french_many = many and count != "group"
    english_many = french_many or (count == "group" and random.random() < 0.5)
    return Subject(english, french, (start[0], start[1] + chinese), french_many, english_many, noun.gender)


def _with_adjective(noun: str, look: Adjective, form: int) -> str:
    word = look.french[form]
    if look.before and word == "vieux" and form == 0 and noun[0] in "aeiouéêh":
        word = "vieil"
    return f"{word} {noun}" if look.before else f"{noun} {word}"


def _counted(
    random: Random, count: str, english: str, french: str, noun: Noun, before_noun: bool
) -> tuple[str, str, tuple[str, str]]:
    """Return the phrase with its article or number, and the start of the Chinese phrase."""
    feminine = noun.gender == "f"
    if count == "one":
        return with_article(english), f"{'une' if feminine else 'un'} {french}", (f"一{noun.classifier}", "")
    if count == "number":
        first, second, third = random.choice(_NUMBERS)
        return f"{first} {english}", f"{second} {french}", (f"{third}{noun.classifier}", "")
    if count == "several":
        return f"several {english}", f"plusieurs {french}", (f"几{noun.classifier}", "")
    if count == "group":
        de = "d'" if french[0] in "aeiouâéêh" else "de "
        return f"a group of {english}", f"un groupe {de}{french}", ("一群", "")
    some = f"de {french}" if before_noun else f"des {french}"
    return f"some {english}" if count == "some" else english, some, ("一些", "")


def _look(random: Random, noun: Noun, animal: bool) -> Adjective | None:
    if random.random() > (0.65 if animal else 0.35):
        return None
    if animal:
        draw = random.random()
        if draw < 0.2:
            return Adjective("small", ("petit", "petite", "petits", "petites"), "小", True)
        if draw < 0.4:
            return Adjective("large", ("grand", "grande", "grands", "grandes"), "大", True)
        return random.choice([one for one in words().colours if one.english in _FURS])
    unfit = _MEN_ONLY if noun.gender == "f" else _WOMEN_ONLY
    if noun.english in CHILDREN:
        return random.choice([one for one in words().looks if one.english in _OF_CHILDREN])
    return random.choice([one for one in words().looks if one.english not in unfit])


_FURS = frozenset(("black", "white", "brown", "gray", "tan", "black and white"))
CHILDREN = frozenset(
    [
        "boy",
        "boys",
        "girl",
        "girls",
        "child",
        "children",
        "kid",
        "kids",
        "baby",
        "babies",
        "toddler",
        "toddlers",
    ]
)
_OF_CHILDREN = frozenset(
    ("young", "little", "small", "blond", "Asian", "smiling", "happy", "barefoot", "African")
)


def _clothing(random: Random, noun: Noun, many: bool) -> tuple[str, str, str] | None:
    draw = random.random()
    if draw > 0.5:
        return None
    unfit = _MEN_ONLY if noun.gender == "f" else _WOMEN_ONLY
    if draw < 0.05:
        return random.choice([one for one in _FEATURES if one[0] not in unfit])
    if draw < 0.08:
        colour = random.choice(words().colours[:6])
        ending = ("", "e", "s", "es")[_form(noun.gender, many)]
        return (
            f"dressed in {colour.english}",
            f"vêtu{ending} de {colour.french[0]}",
            f"穿着{colour.chinese}衣服的",
        )
    fit = [one for one in words().clothes if one.english not in unfit]
    pieces = random.sample(fit, 2 if random.random() < 0.2 else 1)
    pieces = [(piece, _colour(random)) for piece in pieces]
    english = " and ".join(_english_clothing(*pair, many) for pair in pieces)
    chinese = "，".join(_chinese_clothing(*pair) for pair in pieces) + "的"
    if draw < 0.24 and all(piece.way == "en" for piece, _ in pieces):
        return f"in {english}", "en " + " et ".join(_bare(*pair) for pair in pieces), chinese
    french = " et ".join(_french_clothing(*pair, many) for pair in pieces)
    if draw < 0.24:
        return f"{'in' if random.random() < 0.5 else 'with'} {english}", f"avec {french}", chinese
    return f"wearing {english}", f"portant {french}", chinese


def _colour(random: Random) -> Adjective | None:
    return random.choice(words().colours) if random.random() < 0.8 else None


def _english_clothing(piece: Clothing, colour: Adjective | None, many: bool) -> str:
    noun = f"{colour.english} {piece.english}" if colour else piece.english
    if piece.number == "p":
        return noun
    return plural(noun) if many else f"{article(noun)} {noun}"


def _bare(piece: Clothing, colour: Adjective | None) -> str:
    return f"{piece.french} {_agreeing(colour, piece.form)}".rstrip()


def _agreeing(colour: Adjective | None, form: str) -> str:
    return colour.french[_form(form[0], form.endswith("p"))] if colour else ""


def _french_clothing(piece: Clothing, colour: Adjective | None, many: bool) -> str:
    if piece.form.endswith("p"):
        return f"des {_bare(piece, colour)}"
    if not many:
        return f"{'une' if piece.form == 'f' else 'un'} {_bare(piece, colour)}"
    first, _, rest = piece.french.partition(" ")
    first += "x" if first.endswith("eau") else "s"
    return f"des {first} {rest}".rstrip() + f" {_agreeing(colour, piece.form + 'p')}".rstrip()


def _chinese_clothing(piece: Clothing, colour: Adjective | None) -> str:
    verb = "戴着" if piece.chinese in HEADWEAR else "背着" if piece.chinese == "背包" else "穿着"
    if colour is None:
        return verb + piece.chinese
    return f"{verb}{colour.chinese}{'的' if colour.chinese == '五颜六色' else ''}{piece.chinese}"


def _couple(random: Random) -> Subject:
    """Return two different people, such as "a man and a woman"."""
    first, second = random.sample(words().people[:4], 2)
    english = f"a {first.english} and a {second.english}"
    french = " et ".join(f"{'une' if one.gender == 'f' else 'un'} {one.french}" for one in (first, second))
    gender = "f" if first.gender == second.gender == "f" else "m"
    return Subject(english, french, ("", f"一个{first.chinese}和一个{second.chinese}"), True, True, gender)


def make_thing(random: Random, things: list[Thing] | None = None) -> tuple[str, str, str]:
    """Return an object such as "a red ball" in the three languages."""
    thing = random.choice(things or words().objects)
    colour = random.choice(words().colours[:11]) if random.random() < 0.3 else None
    english = f"{colour.english} {thing.english}" if colour else thing.english
    french = (
        f"{'une' if thing.gender == 'f' else 'un'} {thing.french} {_agreeing(colour, thing.gender)}".rstrip()
    )
    chinese = f"一{thing.classifier}{colour.chinese + '的' if colour else ''}{thing.chinese}"
    return with_article(english), french, chinese
