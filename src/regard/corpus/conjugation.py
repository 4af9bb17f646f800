"""Conjugation of French verbs, by rules for regular verbs and by principal parts for irregular ones."""

from __future__ import annotations

import re
from functools import cache

from regard.errors import ArgumentError

__all__ = ["conjugate", "imperative", "participle"]

# Slots: 0 je, 1 tu, 2 il, 3 nous, 4 ils. `you` is always tu, so vous is not needed.
_IMPERFECT = ("ais", "ais", "ait", "ions", "aient")
_FUTURE = ("ai", "as", "a", "ons", "ont")

# infinitive: present (je tu il nous ils) | past participle | stem of the future
_IRREGULAR = {
    "être": "suis es est sommes sont | été | ser",
    "avoir": "ai as a avons ont | eu | aur",
    "aller": "vais vas va allons vont | allé | ir",
    "faire": "fais fais fait faisons font | fait | fer",
    "voir": "vois vois voit voyons voient | vu | verr",
    "savoir": "sais sais sait savons savent | su | saur",
    "pouvoir": "peux peux peut pouvons peuvent | pu | pourr",
    "devoir": "dois dois doit devons doivent | dû | devr",
    "vouloir": "veux veux veut voulons veulent | voulu | voudr",
    "prendre": "prends prends prend prenons prennent | pris | prendr",
    "comprendre": "comprends comprends comprend comprenons comprennent | compris | comprendr",
    "apprendre": "apprends apprends apprend apprenons apprennent | appris | apprendr",
    "peindre": "peins peins peint peignons peignent | peint | peindr",
    "venir": "viens viens vient venons viennent | venu | viendr",
    "revenir": "reviens reviens revient revenons reviennent | revenu | reviendr",
    "souvenir": "souviens souviens souvient souvenons souviennent | souvenu | souviendr",
    "tenir": "tiens tiens tient tenons tiennent | tenu | tiendr",
    "dire": "dis dis dit disons disent | dit | dir",
    "lire": "lis lis lit lisons lisent | lu | lir",
    "écrire": "écris écris écrit écrivons écrivent | écrit | écrir",
    "rire": "ris ris rit rions rient | ri | rir",
    "sourire": "souris souris sourit sourions sourient | souri | sourir",
    "conduire": "conduis conduis conduit conduisons conduisent | conduit | conduir",
    "construire": "construis construis construit construisons construisent | construit | construir",
    "suivre": "suis suis suit suivons suivent | suivi | suivr",
    "poursuivre": "poursuis poursuis poursuit poursuivons poursuivent | poursuivi | poursuivr",
    "boire": "bois bois boit buvons boivent | bu | boir",
    "croire": "crois crois croit croyons croient | cru | croir",
    "mettre": "mets mets met mettons mettent | mis | mettr",
    "dormir": "dors dors dort dormons dorment | dormi | dormir",
    "sortir": "sors sors sort sortons sortent | sorti | sortir",
    "partir": "pars pars part partons partent | parti | partir",
    "courir": "cours cours court courons courent | couru | courr",
    "ouvrir": "ouvre ouvres ouvre ouvrons ouvrent | ouvert | ouvrir",
    "connaître": "connais connais connaît connaissons connaissent | connu | connaîtr",
    "recevoir": "reçois reçois reçoit recevons reçoivent | reçu | recevr",
    "asseoir": "assieds assieds assied asseyons asseyent | assis | assiér",
    "pleuvoir": "pleus pleus pleut pleuvons pleuvent | plu | pleuvr",
    "envoyer": "envoie envoies envoie envoyons envoient | envoyé | enverr",
}
_IMPERATIVE = {"être": "sois", "avoir": "aie", "aller": "va", "savoir": "sache"}


# The spelling changes of -er verbs: pattern of the stem, stem before a silent ending, before -ons, and in the future.
_ER_STEMS = (
    (r"(.*[ou])y", r"\1i", r"\1y", r"\1ier"),  # nettoie, nettoyons, nettoierai
    (r"(ach|l|prom)e([tvn])", r"\1è\2", r"\1e\2", r"\1è\2er"),  # achète, achetons, achèterai
    (r"(appe|je)([lt])", r"\1\2\2", r"\1\2", r"\1\2\2er"),  # appelle, appelons, appellerai
    (r"(.*)ég", r"\1èg", r"\1ége", r"\1éger"),  # protège, protégeons, protégerai
    (r"(.*)é(.)", r"\1è\2", r"\1é\2", r"\1é\2er"),  # préfère, préférons, préférerai
    (r"(.*)g", r"\1g", r"\1ge", r"\1ger"),  # mange, mangeons, mangerai
    (r"(.*)c", r"\1c", r"\1ç", r"\1cer"),  # lance, lançons, lancerai
    (r"(.*)", r"\1", r"\1", r"\1er"),  # aime, aimons, aimerai
)


def _er_stems(stem: str) -> tuple[str, str, str]:
    """Return the stems of an -er verb before a silent ending, before -ons, and in the future."""
    match, forms = next(
        (match, forms) for pattern, *forms in _ER_STEMS if (match := re.fullmatch(pattern, stem))
    )
    weak, strong, future = (match.expand(form) for form in forms)
    return weak, strong, future


@cache
def _parts(infinitive: str) -> tuple[tuple[str, ...], str, str, str]:
    """Return the present forms, the past participle, the imparfait stem and the future stem of a verb."""
    if infinitive in _IRREGULAR:
        present, past, future = (part.strip() for part in _IRREGULAR[infinitive].split("|"))
        forms = tuple(present.split())
        return forms, past, "ét" if infinitive == "être" else forms[3][:-3], future
    stem = infinitive[:-2]
    if infinitive.endswith("er"):
        weak, strong, future = _er_stems(stem)
        return (weak + "e", weak + "es", weak + "e", strong + "ons", weak + "ent"), stem + "é", strong, future
    if infinitive.endswith("ir"):
        forms = tuple(stem + end for end in ("is", "is", "it", "issons", "issent"))
        return forms, stem + "i", stem + "iss", infinitive
    if infinitive.endswith("dre"):
        return (stem + "s", stem + "s", stem, stem + "ons", stem + "ent"), stem + "u", stem, infinitive[:-1]
    raise ArgumentError("infinitive", f"no rule for {infinitive!r}", "add its principal parts to _IRREGULAR")


@cache
def conjugate(infinitive: str, tense: str, slot: int) -> str:
    """Return one simple form of a French verb.

    ``tense`` is present, imperfect, future or conditional. ``slot`` is 0 je, 1 tu, 2 il, 3 nous, 4 ils.

    >>> conjugate("manger", "present", 3), conjugate("manger", "imperfect", 3), conjugate("voir", "future", 4)
    ('mangeons', 'mangions', 'verront')
    """
    present, _, imperfect, future = _parts(infinitive)
    if tense == "present":
        return present[slot]
    if tense == "imperfect":
        if slot == 3 and imperfect.endswith("ge"):  # mangeons, but mangions
            imperfect = imperfect[:-1]
        if slot == 3 and imperfect.endswith("ç"):
            imperfect = imperfect[:-1] + "c"
        return imperfect + _IMPERFECT[slot]
    if tense == "future":
        return future + _FUTURE[slot]
    if tense == "conditional":
        return future + _IMPERFECT[slot]
    raise ArgumentError(
        "tense", f"unknown tense {tense!r}", "known are present, imperfect, future and conditional"
    )


@cache
def participle(infinitive: str, gender: str, plural: bool) -> str:
    """Return the past participle of a French verb with agreement in gender and number.

    >>> participle("asseoir", "f", True), participle("voir", "m", False), participle("devoir", "f", False)
    ('assises', 'vu', 'due')
    """
    form = _parts(infinitive)[1]
    if form == "dû" and (gender == "f" or plural):
        form = "du"
    if gender == "f":
        form += "e"
    return form + "s" if plural and not form.endswith("s") else form


@cache
def imperative(infinitive: str) -> str:
    """Return the imperative singular of a French verb (mange, finis, ouvre, va).

    >>> imperative("manger"), imperative("ouvrir"), imperative("lire")
    ('mange', 'ouvre', 'lis')
    """
    if infinitive in _IMPERATIVE:
        return _IMPERATIVE[infinitive]
    form = _parts(infinitive)[0][1]
    return form[:-1] if form.endswith("es") else form
