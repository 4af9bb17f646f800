"""The adjectives and degree adverbs of the lexicon.

A line reads ``English comparative | French position | Chinese style | classes``.

- The comparative is ``-`` if there is none. Without one it is formed with `more`.
- Irregular French forms are separated by ``/`` (masculine, feminine, masculine before a vowel).
- ``pre`` places the adjective before the French noun and ``post`` after it. ``avoir`` is used with avoir (avoir faim).
- The Chinese style is ``bare`` 大狗, ``de`` 漂亮的狗, ``shi`` 是红色的 or ``le`` 生病了.
- ``only`` in the last column excludes use next to the noun, and ``beside`` restricts the adjective to it.
"""

from __future__ import annotations

from regard.corpus.lexemes import Adjective, Adverb, french_plural

__all__ = ["ADJECTIVES", "BESIDE", "DEGREES", "PREDICATE", "WEATHER_QUALITIES"]

TABLE = """
big bigger | grand pre | 大 bare | animal plant furniture building vehicle surface big
small smaller | petit pre | 小 bare | animal plant furniture goods building vehicle fruit room
young younger | jeune pre | 年轻 de | adult
old older | vieux/vieille/vieil pre | 老 bare | animal job
old older | vieux/vieille/vieil pre | 旧 bare | goods vehicle building furniture
old older | vieux/vieille/vieil pre | 老 de | adult only
new - | nouveau/nouvelle/nouvel pre | 新 bare | goods vehicle building furniture job met beside
good - | bon/bonne pre | 好 bare | job readable beside
beautiful | beau/belle/bel pre | 漂亮 de | goods plant building vehicle bird sky
pretty prettier | joli pre | 好看 de | goods plant
tall taller | grand pre | 高 bare | person only
rich richer | riche post | 富有 de | adult
poor poorer | pauvre post | 贫穷 de | adult only
happy happier | heureux/heureuse post | 快乐 de | person
sad sadder | triste post | 伤心 de | person
angry angrier | en_colère post | 生气 de | person only
tired | fatigué post | 累 bare | person animal only
sick - | malade post | 生病 le | person animal
busy busier | occupé post | 忙 de | person only
kind kinder | gentil/gentille post | 善良 de | person
intelligent | intelligent post | 聪明 de | person animal
famous | célèbre post | 出名 de | job building
strong stronger | fort post | 强壮 de | person animal
shy shyer | timide post | 害羞 de | person
brave braver | courageux/courageuse post | 勇敢 de | person
honest | honnête post | 诚实 de | person
lazy lazier | paresseux/paresseuse post | 懒惰 de | person pet
polite | poli post | 礼貌 de | person
nervous | nerveux/nerveuse post | 紧张 de | person only
curious | curieux/curieuse post | 好奇 de | person animal
careful | prudent post | 小心 de | person only
dangerous | dangereux/dangereuse post | 危险 de | wild
hungry hungrier | faim avoir | 饿 bare | person animal only
thirsty thirstier | soif avoir | 渴 bare | person animal only
sleepy sleepier | sommeil avoir | 困 bare | person animal only
expensive | cher/chère post | 昂贵 de | goods fixed food drink
cheap - | bon_marché post | 便宜 de | goods food drink
clean cleaner | propre post | 干净 de | clothes dish room vehicle
dirty dirtier | sale post | 脏 bare | clothes dish room vehicle pet
heavy heavier | lourd post | 重 bare | furniture carry only
light lighter | léger/légère post | 轻 bare | carry clothes only
fast faster | rapide post | 快 de | vehicle
empty - | vide post | 空 shi | hollow
useful | utile post | 实用 de | device dish thought
interesting | intéressant post | 有趣 de | readable told watched thought visited
boring | ennuyeux/ennuyeuse post | 无聊 de | readable told watched
difficult | difficile post | 困难 de | thought language
easy easier | facile post | 容易 de | thought language
important | important post | 重要 de | thought
long longer | long/longue post | 长 bare | sung told clothes
strange stranger | étrange post | 奇怪 de | thought told animal
delicious | délicieux/délicieuse post | 好吃 de | food
sweet sweeter | sucré post | 甜 bare | fruit made
fresh fresher | frais/fraîche post | 新鲜 de | fruit raw
quiet quieter | calme post | 安静 de | room goal
modern | moderne post | 现代化 de | building
red - | rouge post | 红色 shi | goods vehicle fruit
blue - | bleu post | 蓝色 shi | goods vehicle
green - | vert post | 绿色 shi | goods vehicle plant
white - | blanc/blanche post | 白色 shi | goods vehicle pet tame
black - | noir post | 黑色 shi | goods vehicle pet tame
yellow - | jaune post | 黄色 shi | goods vehicle
brown - | brun post | 棕色 shi | clothes headwear pet
gray - | gris post | 灰色 shi | clothes headwear pet
wooden - | en_bois post | 木头 shi | furniture toy dish
"""

DEGREES = (
    Adverb("very", "très", "非常"),
    Adverb("too", "trop", "太", "了"),
    Adverb("really", "vraiment", "真的很"),
    Adverb("rather", "assez", "比较"),
)

# Adjectives of the weather (it is cold, il fait froid, 很冷).
WEATHER_QUALITIES = (
    ("cold", "froid", "冷"),
    ("hot", "chaud", "热"),
    ("cool", "frais", "凉快"),
)


def _forms(cell: str) -> tuple[tuple[str, str, str, str], str]:
    masculine, _, rest = cell.partition("/")
    feminine, _, vowel = rest.partition("/")
    # A fixed expression does not agree.
    if "_" in masculine:
        word = masculine.replace("_", " ")
        return (word, word, word, word), ""
    feminine = feminine or (masculine if masculine.endswith("e") else masculine + "e")
    return (masculine, feminine, french_plural(masculine), french_plural(feminine)), vowel


def _adjective(line: str) -> Adjective:
    english, french, chinese, classes = (cell.strip() for cell in line.split("|"))
    en, _, more = english.partition(" ")
    fr, place = french.split()
    zh, style = chinese.split()
    names = classes.split()
    forms, vowel = _forms(fr)
    return Adjective(
        en=en,
        en_more=more.replace("_", " "),
        fr=(fr, fr, fr, fr) if place == "avoir" else forms,
        fr_vowel=vowel,
        before=place == "pre",
        avoir=place == "avoir",
        zh=zh,
        style=style,
        classes=tuple(name for name in names if name not in ("only", "beside")),
        predicate="beside" not in names,
        beside="only" not in names,
    )


ADJECTIVES = tuple(_adjective(line) for line in TABLE.strip().split("\n"))


def _by_class(adjectives: list[Adjective]) -> dict[str, tuple[Adjective, ...]]:
    names = sorted({name for adjective in adjectives for name in adjective.classes})
    return {name: tuple(a for a in adjectives if name in a.classes) for name in names}


PREDICATE = _by_class([adjective for adjective in ADJECTIVES if adjective.predicate])
BESIDE = _by_class([adjective for adjective in ADJECTIVES if adjective.beside])
