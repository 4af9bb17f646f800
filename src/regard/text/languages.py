"""A guess at the language of a text, by its script and its frequent words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from regard.text.sentences import sentence_spans

__all__ = ["LANGUAGES", "known_code", "language_of_words", "other_language"]

# The names of the languages that are recognised, by their codes.
LANGUAGES: dict[str, str] = {
    "en": "English",
    "fr": "French",
    "de": "German",
    "es": "Spanish",
    "it": "Italian",
    "pt": "Portuguese",
    "nl": "Dutch",
    "sv": "Swedish",
    "pl": "Polish",
    "tr": "Turkish",
    "zh": "Chinese",
    "ja": "Japanese",
    "ko": "Korean",
    "ru": "Russian",
    "uk": "Ukrainian",
    "ar": "Arabic",
    "he": "Hebrew",
    "el": "Greek",
    "hi": "Hindi",
    "th": "Thai",
}
_SCRIPTS = {
    "ja": "\u3040-\u30ff",
    "zh": "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff",
    "ko": "\u1100-\u11ff\uac00-\ud7af",
    "ru": "\u0400-\u052f",
    "ar": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefe",
    "he": "\u0590-\u05ff",
    "el": "\u0370-\u03ff",
    "hi": "\u0900-\u097f",
    "th": "\u0e00-\u0e7f",
}
_IN_SCRIPT = {code: re.compile(f"[{letters}]") for code, letters in _SCRIPTS.items()}
_UKRAINIAN = re.compile("[іїєґІЇЄҐ]")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_WORD = re.compile(r"[^\W\d_]+")
# Frequent words of languages that are written in Latin letters.
_WORDS = {
    "en": (
        "the be to of and a in that have i it for not on with he as you do at this but his by from they we "
        "say her she or an will my one all would there their what so up out if about who get which go me when "
        "make can like time no just him know take people into year your good some could them see other than "
        "then now look only come its over think also back after use two how our work first well way even new "
        "want because any these give day most us is are was were been has had did does don t s m re ve ll isn "
        "doesn didn am where why man woman very too much many more should must let please yes tell never "
        "always here down off again"
    ),
    "fr": (
        "le la les de des du un une et est en que qui dans ce il elle on ne pas plus pour sur au aux avec se "
        "son sa ses je tu nous vous ils elles mon ma mes ton ta tes votre notre leur leurs c d j l m n s qu y "
        "a ai as avons avez ont suis es sommes êtes sont était étaient été être avoir fait faire mais ou où "
        "si tout tous toute comme très bien aussi cette ces cet quand comment pourquoi quoi rien jamais "
        "toujours encore peut peux veux chez sans sous vers entre deux homme femme dit va vais à ça me te moi "
        "toi lui quel quelle parce"
    ),
    "de": (
        "der die das und ist in den dem des ein eine einen einem einer eines nicht ich du er sie es wir ihr "
        "mit auf für von zu im am an als auch aus bei nach so wie was wer wo wenn dass daß hat haben habe "
        "hatte bin bist sind war waren wird werden wurde kann können muss will sich noch nur schon sehr mehr "
        "über unter vor zwei mann frau mein dein sein kein keine ja nein aber oder um durch gegen bitte mich "
        "dich ihm ihn uns euch man viel immer hier dort zum zur einige steht sitzt"
    ),
    "es": (
        "el la los las de del un una y es en que no se por con para su sus lo le como más pero al me te mi tu "
        "yo él ella nosotros ustedes está están son ser estar hay muy todo todos este esta estos si ya cuando "
        "donde qué quién porque también fue era tiene tengo quiero dos hombre mujer nada siempre nunca aquí "
        "usted nos"
    ),
    "it": (
        "il lo la i gli le di del della dei un una uno e è in che non si per con su da al alla come più ma mi "
        "ti mio tuo io lui lei noi voi loro sono sei siamo siete essere ho hai ha abbiamo hanno questo questa "
        "quello anche molto tutto quando dove perché chi cosa due uomo donna niente sempre mai qui nel nella "
        "ci"
    ),
    "pt": (
        "o a os as de do da dos das um uma e é em que não se por com para seu sua no na nos nas como mais mas "
        "ao me te meu minha eu ele ela nós você vocês eles elas está estão são ser estar há muito tudo este "
        "esta isso quando onde quem porque também foi era tem tenho quero dois homem mulher nada sempre nunca "
        "aqui"
    ),
    "nl": (
        "de het een en van in is dat op te zijn met voor niet aan er om ook als dan maar bij nog uit naar "
        "door over ze hij zij wij jij je ik we u mijn jouw haar hun dit deze die was waren heeft heb hebben "
        "had kan kunnen moet wil geen wel meer veel al hier daar waar wat wie hoe waarom twee man vrouw"
    ),
    "sv": (
        "och i att det som en på är av för med till den har de inte om ett han hon jag du vi ni var från men "
        "så kan ska när nu hur vad vem mig dig sig min din sin här där mycket också bara eller två man kvinna"
    ),
    "pl": (
        "i w na nie to się z że do jest jak ale co po tak za od o ja ty on ona my wy oni mnie ciebie go jej "
        "ich mój twój czy być był była są dla już tylko bardzo kiedy gdzie kto dlaczego dwa jeden pan pani"
    ),
    "tr": (
        "ve bir bu da de için ile çok ne ben sen o biz siz onlar mi mı var yok değil ama gibi daha en kadar "
        "her şey ki olan olarak nasıl neden nerede kim bana sana evet hayır"
    ),
}
_FREQUENT = {code: frozenset(words.split()) for code, words in _WORDS.items()}
# Letters that hardly occur in other languages of the table.
_LETTERS = {
    "fr": "èêëçœùûîâ",
    "de": "äöüß",
    "es": "ñ¿¡",
    "pt": "ãõ",
    "sv": "å",
    "pl": "ąćęłńśźż",
    "tr": "ğış",
}
# Words that are in names as well.
_PARTICLES = "de la le les du des del da di do dos van von der den el los las y e et d l i o san st"
_IN_NAMES = frozenset(_PARTICLES.split())
_LEAST_WORDS = 3  # shorter texts may be names
# Shorter sentences of an English text may be expressions such as "C'est la vie."
_LEAST_WORDS_OF_SENTENCE = 5
# The number of frequent words of a language in a list of words that is surely of it.
_LEAST_FREQUENT = 8


def other_language(text: str, expected: str, *, sentences: bool = True) -> str:
    """Return the code of the language of a text if it is surely not the expected one, or an empty text.

    With ``sentences``, a text has another language too if a sentence of five words or more has it. Short texts and
    texts of names have no sure language. :data:`LANGUAGES` has the names of the codes.

    >>> other_language("Le chat est assis sur le tapis.", "en"), other_language("我爱你。", "en")
    ('fr', 'zh')
    >>> other_language("The cat sat on the mat.", "en"), other_language("Jean-Luc Picard", "en")
    ('', '')
    """
    expected = known_code(expected)
    if expected not in LANGUAGES:
        return ""
    found = _language_of(text, expected)
    if found or not sentences:
        return found
    parts = [text[slice(*span)] for span in sentence_spans(text, expected)]
    long = (one for one in parts if len(_WORD.findall(one)) >= _LEAST_WORDS_OF_SENTENCE)
    return next((code for one in long if (code := _language_of(one, expected))), "")


def _language_of(text: str, expected: str) -> str:
    script = _by_script(text, expected)
    return script if script is not None else _by_words(text, expected)


def known_code(language: str) -> str:
    """Return the code of a language as :data:`LANGUAGES` has it, without its region.

    >>> known_code("zh-CN"), known_code("cmn"), known_code("en_US")
    ('zh', 'zh', 'en')
    """
    code = language.lower().replace("_", "-").partition("-")[0]
    return "zh" if code in ("cmn", "yue", "zho", "chi") else code


def language_of_words(words: Sequence[str]) -> str:
    """Return the code of the language that some frequent words are of, or an empty text if none is sure.

    >>> language_of_words("the of and to a in is for with that we this are model".split())
    'en'
    >>> language_of_words(["model", "data", "corpus"])
    ''
    """
    text = " ".join(words)
    script = _by_script(text, "")
    if script:
        return script
    counts = Counter({code: len(frequent & set(words)) for code, frequent in _FREQUENT.items()})
    (best, most), (_, second) = counts.most_common(2)
    return best if most >= _LEAST_FREQUENT and most >= 2 * second else ""


def _by_script(text: str, expected: str) -> str | None:
    """Return the language of the script of most letters, or None if that is the Latin one."""
    counts = {code: len(pattern.findall(text)) for code, pattern in _IN_SCRIPT.items()}
    latin = len(_LATIN.findall(text))
    best = max(counts, key=lambda code: counts[code])
    # Chinese is written with fewer letters than its words have in Latin ones.
    if counts[best] < 2 or counts[best] * (3 if best in ("zh", "ja") else 1) < latin:
        if expected in _SCRIPTS and latin > 12 and latin > 4 * counts.get(expected, 0):
            return _by_words(text, expected) or None
        return None
    if best == "zh" and counts["ja"]:
        best = "ja"
    if best == "ru" and _UKRAINIAN.search(text):
        best = "uk"
    return "" if best == expected else best


def _by_words(text: str, expected: str) -> str:
    words = [word.lower() for word in _WORD.findall(text)]
    if len(words) < _LEAST_WORDS:
        return ""
    different = set(words)
    scores: Counter[str] = Counter()
    for code, frequent in _FREQUENT.items():
        marked = _LETTERS.get(code, "")
        scores[code] = 2 * len(different & frequent) + sum(
            any(letter in marked for letter in word) for word in different - frequent
        )
    own = scores.pop(expected, 0)
    best = max(scores, key=lambda code: scores[code])
    if different & _FREQUENT[best] <= _IN_NAMES:
        return ""
    enough = scores[best] >= 4 and scores[best] >= 2 * own + 2 and 6 * scores[best] >= 2 * len(different)
    return best if enough else ""
