"""The pronouns, numerals, prepositions, places, times, adverbs and connectives of the lexicon.

The numbers in times and places align their words (see :func:`~regard.corpus.lexemes.fragment`).
"""

from __future__ import annotations

from regard.corpus.lexemes import Adverb, Numeral, Preposition, Pronoun, Spot, Time, fragment

__all__ = [
    "ALSO",
    "BY_TENSE",
    "CONNECTIVES",
    "FREQUENCIES",
    "MANNERS",
    "NEVER",
    "NUMERALS",
    "PREPOSITIONS",
    "PRONOUNS",
    "SPOTS",
    "TIMES",
    "TOWARDS",
    "Connective",
]

PRONOUNS = {
    "I": Pronoun("I", "me", "my", "je", "me", "me", "moi", ("mon", "ma", "mes"), "我", 1, False, "m"),
    "you": Pronoun("you", "you", "your", "tu", "te", "te", "toi", ("ton", "ta", "tes"), "你", 2, False, "m"),
    "he": Pronoun("he", "him", "his", "il", "le", "lui", "lui", ("son", "sa", "ses"), "他", 3, False, "m"),
    "she": Pronoun(
        "she", "her", "her", "elle", "la", "lui", "elle", ("son", "sa", "ses"), "她", 3, False, "f"
    ),
    "it": Pronoun("it", "it", "its", "il", "le", "lui", "lui", ("son", "sa", "ses"), "它", 3, False, "m"),
    "we": Pronoun(
        "we", "us", "our", "nous", "nous", "nous", "nous", ("notre", "notre", "nos"), "我们", 1, True, "m"
    ),
    "they": Pronoun(
        "they", "them", "their", "ils", "les", "leur", "eux", ("leur", "leur", "leurs"), "他们", 3, True, "m"
    ),
    # `it` and `they` for an antecedent that is feminine in French or a thing in Chinese.
    "it f": Pronoun(
        "it", "it", "its", "elle", "la", "lui", "elle", ("son", "sa", "ses"), "它", 3, False, "f"
    ),
    "they f": Pronoun(
        "they",
        "them",
        "their",
        "elles",
        "les",
        "leur",
        "elles",
        ("leur", "leur", "leurs"),
        "她们",
        3,
        True,
        "f",
    ),
    "they it": Pronoun(
        "they", "them", "their", "ils", "les", "leur", "eux", ("leur", "leur", "leurs"), "它们", 3, True, "m"
    ),
    "they it f": Pronoun(
        "they",
        "them",
        "their",
        "elles",
        "les",
        "leur",
        "elles",
        ("leur", "leur", "leurs"),
        "它们",
        3,
        True,
        "f",
    ),
    "who": Pronoun(
        "who", "who", "whose", "qui", "que", "à qui", "qui", ("son", "sa", "ses"), "谁", 3, False, "m"
    ),
}

NUMERALS = {
    "two": Numeral("two", "deux", "两"),
    "three": Numeral("three", "trois", "三"),
    "four": Numeral("four", "quatre", "四"),
    "five": Numeral("five", "cinq", "五"),
    "six": Numeral("six", "six", "六"),
    "ten": Numeral("ten", "dix", "十"),
}

PREPOSITIONS = (
    Preposition(("on",), ("sur",), "上", ("surface",)),
    Preposition(("in",), ("dans",), "里", ("inner", "in")),
    Preposition(("under",), ("sous",), "下面", ("under",)),
    Preposition(("behind",), ("derrière",), "后面", ("behind", "near")),
    Preposition(("near",), ("près", "de"), "附近", ("near",)),
    Preposition(("in", "front", "of"), ("devant",), "前面", ("near",)),
    Preposition(("next", "to"), ("à", "côté", "de"), "旁边", ("near",)),
    Preposition(("at",), ("à",), "", ("at",)),
)
TOWARDS = Preposition(("to",), ("à",), "", ("goal",))


def _spot(en: str, en_to: str, fr: str, zh: str, goal: bool = True) -> Spot:
    return Spot(fragment(en), fragment(en_to), fragment(fr), fragment(zh), goal)


SPOTS = (
    _spot("here:1", "here:1", "ici:1", "这里:1", goal=False),
    _spot("there:1", "there:1", "là-bas:1", "那里:1", goal=False),
    _spot("at:2 home:1", "home:1", "à:2 la:?1 maison:1", "家:1 里:2", goal=False),
    _spot("outside:1", "outside:1", "dehors:1", "外面:1", goal=False),
    _spot("in:2 Paris:1", "to:2 Paris:1", "à:2 Paris:1", "巴黎:1"),
    _spot("in:2 London:1", "to:2 London:1", "à:2 Londres:1", "伦敦:1"),
    _spot("in:2 Beijing:1", "to:2 Beijing:1", "à:2 Pékin:1", "北京:1"),
    _spot("in:2 Shanghai:1", "to:2 Shanghai:1", "à:2 Shanghai:1", "上海:1"),
    _spot("in:2 Boston:1", "to:2 Boston:1", "à:2 Boston:1", "波士顿:1"),
    _spot("in:2 China:1", "to:2 China:1", "en:2 Chine:1", "中国:1"),
    _spot("in:2 France:1", "to:2 France:1", "en:2 France:1", "法国:1"),
    _spot("in:2 England:1", "to:2 England:1", "en:2 Angleterre:1", "英国:1"),
    _spot("in:2 Germany:1", "to:2 Germany:1", "en:2 Allemagne:1", "德国:1"),
    _spot("in:2 Japan:1", "to:2 Japan:1", "au:2 Japon:1", "日本:1"),
    _spot("in:2 Canada:1", "to:2 Canada:1", "au:2 Canada:1", "加拿大:1"),
)

_PAST, _FUTURE, _ANY = ("past",), ("future",), ("past", "future", "now", "present")


def _time(en: str, fr: str, zh: str, tenses: tuple[str, ...], front: bool = False) -> Time:
    return Time(fragment(en), fragment(fr), fragment(zh), tenses, front)


TIMES = (
    _time("yesterday:1", "hier:1", "昨天:1", ("past", "then"), True),
    _time("last:1 night:2", "hier:1 soir:2", "昨:1 晚:2", ("past", "then"), True),
    _time("last:1 week:2", "la:?2 semaine:2 dernière:1", "上:1 周:2", _PAST, True),
    _time("last:1 month:2", "le:?2 mois:2 dernier:1", "上个:1 月:2", _PAST, True),
    _time("last:1 year:2", "la:?2 année:2 dernière:1", "去:1 年:2", _PAST, True),
    _time("this:1 morning:2", "ce:1 matin:2", "今天:1 早上:2", _PAST, True),
    _time("two:1 days:2 ago:3", "il:3 y:3 a:3 deux:1 jours:2", "两:1 天:2 前:3", _PAST, True),
    _time("three:1 years:2 ago:3", "il:3 y:3 a:3 trois:1 ans:2", "三:1 年:2 前:3", _PAST, True),
    _time("today:1", "aujourd'hui:1", "今天:1", ("past", "future", "now"), True),
    _time("now:1", "maintenant:1", "现在:1", ("now",), False),
    _time("tomorrow:1", "demain:1", "明天:1", _FUTURE, True),
    _time("tomorrow:1 morning:2", "demain:1 matin:2", "明天:1 早上:2", _FUTURE, True),
    _time("tonight:1", "ce:?1 soir:1", "今晚:1", _FUTURE, True),
    _time("next:1 week:2", "la:?2 semaine:2 prochaine:1", "下:1 周:2", _FUTURE, True),
    _time("next:1 month:2", "le:?2 mois:2 prochain:1", "下个:1 月:2", _FUTURE, True),
    _time("next:1 year:2", "la:?2 année:2 prochaine:1", "明:1 年:2", _FUTURE, True),
    _time("on:?1 Monday:1", "lundi:1", "星期一:1", ("past", "future")),
    _time("on:?1 Friday:1", "vendredi:1", "星期五:1", ("past", "future")),
    _time("on:?1 Sunday:1", "dimanche:1", "星期天:1", ("past", "future")),
    _time("every:1 day:2", "tous:1 les:?12 jours:2", "每:1 天:2", ("present",), True),
    _time("every:1 morning:2", "chaque:1 matin:2", "每天:1 早上:2", ("present",), True),
    _time("every:1 evening:2", "chaque:1 soir:2", "每天:1 晚上:2", ("present",), True),
    _time("every:1 week:2", "chaque:1 semaine:2", "每:1 周:2", ("present",)),
    _time("every:1 year:2", "chaque:1 année:2", "每:1 年:2", ("present",), True),
    _time("in:?1 the:2 morning:1", "le:2 matin:1", "早上:1?2", ("present",), True),
    _time("in:?1 the:2 evening:1", "le:2 soir:1", "晚上:1?2", ("present",), True),
    _time("in:2 summer:1", "en:2 été:1", "夏天:1?2", ("present",), True),
    _time("in:2 winter:1", "en:2 hiver:1", "冬天:1?2", ("present",), True),
    _time("on:?1 Sundays:1", "le:?1 dimanche:1", "每:?1 个:?1 星期天:1", ("present",)),
    _time("at:2 noon:1", "à:2 midi:1", "中午:1?2", ("past", "future", "present")),
)
BY_TENSE = {
    tense: tuple(time for time in TIMES if tense in time.tenses)
    for tense in ("past", "then", "future", "now", "present")
}

FREQUENCIES = (
    Adverb("always", "toujours", "总是"),
    Adverb("often", "souvent", "经常"),
    Adverb("sometimes", "parfois", "有时"),
    Adverb("rarely", "rarement", "很少"),
)
ALSO = Adverb("also", "aussi", "也")
NEVER = Adverb("never", "jamais", "从不")

# Adverbs of manner, with the English verbs they go with.
MANNERS = (
    Adverb(
        "slowly",
        "lentement",
        "慢慢地",
        verbs=("eat", "drink", "walk", "read", "write", "open", "swim", "speak"),
    ),
    Adverb(
        "quickly",
        "rapidement",
        "很快地",
        verbs=("eat", "drink", "walk", "read", "write", "clean", "repair", "swim"),
    ),
    Adverb(
        "quietly",
        "silencieusement",
        "静静地",
        verbs=("sleep", "read", "eat", "wait", "work", "smile", "leave"),
    ),
    Adverb(
        "carefully",
        "prudemment",
        "小心地",
        verbs=("drive", "open", "walk", "carry", "close", "touch", "wash"),
    ),
    Adverb(
        "happily", "joyeusement", "开心地", verbs=("play", "sing", "dance", "laugh", "smile", "eat", "work")
    ),
    Adverb("loudly", "bruyamment", "大声地", verbs=("laugh", "cry", "sing", "shout")),
    Adverb(
        "together", "ensemble", "一起", verbs=("work", "travel", "sing", "dance", "play", "walk", "study")
    ),
    Adverb("patiently", "patiemment", "耐心地", verbs=("wait", "work", "listen")),
)


class Connective:
    """A conjunction that joins two clauses.

    ``fronted`` says that in Chinese the clause of the connective always comes first (当…的时候), closed by ``zh_end``.
    ``comma`` says that English and French write a comma before the connective.
    """

    __slots__ = ("comma", "en", "fr", "fronted", "zh", "zh_end")

    def __init__(
        self, en: str, fr: str, zh: str, zh_end: str = "", *, fronted: bool = False, comma: bool = False
    ):
        self.en, self.fr, self.zh, self.zh_end = en, tuple(fr.split()), zh, tuple(zh_end.split())
        self.fronted, self.comma = fronted, comma


CONNECTIVES = {
    "because": Connective("because", "parce que", "因为"),
    "when": Connective("when", "quand", "当", "的 时候", fronted=True),
    "if": Connective("if", "si", "如果", fronted=True),
    "but": Connective("but", "mais", "但是", comma=True),
    "and": Connective("and", "et", "而", comma=True),
    "so": Connective("so", "donc", "所以", comma=True),
}
