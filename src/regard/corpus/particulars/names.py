"""Names of people and places, some of them real and most of them invented from syllables.

Every name belongs to the split "train" or "test" by a hash, so that a model is tested on names that it never saw.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import NamedTuple

__all__ = ["company_name", "first_name", "fresh", "full_name", "in_split", "place_name", "surname"]

TEST_SHARE = 10  # one value in ten is kept for the test
_TRIES = 1000

_WOMEN_TEXT = (
    "Anna Emma Sofia Olivia Camille Léa Chloé Zoé Inès Agnès Élodie Aurélie Margaux Ingrid Astrid Freya Sigrid Solveig "
    "Katarzyna Agnieszka Zofia Svetlana Natalia Ludmila Irina Milica Ivana Jelena Petra Hana Aisha Fatima Leila Yasmin "
    "Noor Samira Amina Khadija Priya Ananya Kavya Lakshmi Deepika Meera Sunita Mei Xiaoling Yuki Sakura Haruka Aiko "
    "Nguyet Linh Thuy Ngozi Chidinma Adaeze Abena Ama Folake Zanele Thandiwe Wanjiru Isabella Valentina Lucía Carmen "
    "Pilar Guadalupe Beatriz Inês Giulia Chiara Francesca Elif Zeynep Ayşe Siobhán Niamh Aoife Eilidh Rhiannon Helga "
    "Greta Liesl Heidi Maren Anneke Saskia Femke Eszter Zsófia Ilona Daria Oksana Anastasia Tamar Nino Ruth Miriam "
    "Judith Grace Harriet Charlotte Beatrice Victoria Josephine Marie-Claire Anne-Sophie Mary-Ann Noa Shira Dilnoza"
)
_WOMEN = _WOMEN_TEXT.split()
_MEN_TEXT = (
    "Alexander Benjamin Oliver Lucas Hugo Théo Raphaël Étienne Rémi Loïc Jérôme François Jean-Luc Jean-Pierre Björn "
    "Lars Anders Søren Magnus Håkon Eero Mikko Jussi Piotr Wojciech Krzysztof Bartosz Vladimir Dmitri Sergei Bogdan "
    "Miloš Goran Zoran Jiří Václav Ahmed Omar Khalid Youssef Tariq Hassan Ibrahim Rajesh Arjun Vikram Sanjay Rohan "
    "Anand Harish Wei Jun Hiroshi Kenji Takeshi Satoshi Minh Quang Dũng Chukwuemeka Obinna Kwame Kofi Kojo Babatunde "
    "Sipho Thabo Kamau Diego Alejandro Javier Ramón José João Thiago Rui Matteo Lorenzo Giovanni Emre Mehmet Oğuz "
    "Seán Padraig Callum Hamish Rhys Emrys Klaus Jürgen Günther Wolfgang Uwe Pieter Joost Willem László Gábor Zoltán "
    "Andriy Taras Giorgi Levan Elias Samuel Isaac Theodore Maximilian Sebastian Nathaniel Karl-Heinz Bjarne Amir "
    "Rustam Timur Kaveh Cyrus Eitan Ari Leopold Casimir Ambrose Desmond"
)
_MEN = _MEN_TEXT.split()
_SURNAMES_TEXT = (
    "Thompson Kowalczyk Novák Müller Schröder O'Brien O'Connor McGregor MacLeod Fitzgerald Johansson Lindqvist "
    "Østergaard Nguyen Tran Pham Okafor Adeyemi Mensah Owusu Diallo Traoré Ndiaye Mbeki Kimani Patel Sharma Iyer "
    "Banerjee Chatterjee Singh Kaur Haddad Al-Sayed El-Amin Ben-David Rosenberg Goldstein Petrov Ivanova Sokolov "
    "Shevchenko Popescu Ionescu Papadopoulos Yıldız Demir Öztürk Tanaka Yamamoto Nakamura Chen Zhang Liu Kim Park "
    "García Fernández Rodríguez Silva Oliveira Ferreira Rossi Bianchi Esposito Dubois Lefèvre Moreau Saint-Martin "
    "D'Angelo De Van Von Luca Dijk Berg Trapp Horváth Szabó Kovács Whitaker Blackwood Ellington Hargreaves "
    "Pemberton Worthington Montgomery Castellanos Villanueva Beaumont Delacroix Vandermeer Achterberg Quispe Mamani"
)
_SURNAMES = _SURNAMES_TEXT.split()
_PREFIXES = {"De", "Van", "Von"}
_PLACES_TEXT = (
    "Maple Oak Cedar Birch Willow Chestnut Elm Magnolia Sycamore Juniper Hawthorn Rosewood Lakeview Hillcrest Kingston "
    "Wellington Victoria Lincoln Jefferson Madison Franklin Hamilton Churchill Market Station Church Mill Harbour Park "
    "Bridge Garden River Spring Meadow Orchard Prospect Highland Sunset Valley Abbey Castle Queen Duke Bishop Foundry"
)
_PLACES = _PLACES_TEXT.split()


class _Origin(NamedTuple):
    """The beginnings and middles of names of one origin, and their endings for women, men and families."""

    starts: tuple[str, ...]
    middles: tuple[str, ...]
    women: tuple[str, ...]
    men: tuple[str, ...]
    families: tuple[str, ...]


def _origin(*parts: str) -> _Origin:
    return _Origin(*[tuple(part.split()) for part in parts])


_ORIGINS = (
    _origin(  # Slavic
        "Bra Dra Mi Vla Zde Ja Sta Ra Lju Bo Kra Stre Dob Zla Ve Pri Te Sve Ol Igo Ma Ned",
        "ro li do ne va ni mi slav bo ko zi",
        "na ka ša ana ica mila slava enka",
        "mir slav jan ko dan vit rad šek",
        "ović ski czyk enko ev in ák ová čić iewicz",
    ),
    _origin(  # West African
        "Ade Olu Chi Ngo Kwa Ba Fo Te Ife Uz Oba Nna Ko Aki Eme Ola Sa Ma Ka Di Fa Mou",
        "wa ba fe ke ni lo ma ra di yo mbe",
        "ka ola ye nke uwa toke sewa tou",
        "mi tunde kwe me bo do dou sola",
        "yemi for la wale nkwo diallo ba mensah chukwu bola",
    ),
    _origin(  # Indian
        "Ra Vi Su Ka Pra Sha Ni Ar Dee Man Lak Go Ha Ya An Sri Bha Chan De Ro",
        "ja sh ma na va ku ri ni dra ksh ti",
        "ya vati ika mala priya ini tha reena",
        "esh endra jit an kumar deep nath hit",
        "wala kar murthy nathan reddy gupta dev rajan mani appa",
    ),
    _origin(  # Arabic
        "Ab Fa Ha Kha Ma Na Sa Ta Ya Za Ri Mu Ib Ja La Su Ra Ba",
        "l r m d bi ha ri sa ka la",
        "ira iya ah een ida oua ana ema",
        "im id ar oud if een an el",
        "awi ouri adi ani eddine habi iri masri oui",
    ),
    _origin(  # Vietnamese and Chinese
        "Ng Th Tr Ph Qu Xi Zh Li Ho Da Ta Ke V Gi Kh L M Y",
        "u a uo ie e ao ia",
        "ng nh an en uy ai ong",
        "ng n nh uc at eo ong",
        "ng n ao en ang ou ieu",
    ),
    _origin(  # Nordic
        "Hal Sig Thor Bjør Ei Gu Al In Rag As Jo Knu Ul Vil Ste Frey Lin Sol",
        "d f n va ri ge sten mun",
        "dis hild run a gerd veig frid borg",
        "var stein rik mund ulf ar leif gard",
        "sson sen ström lund gaard berg qvist dahl dóttir",
    ),
    _origin(  # Japanese
        "Ka Ha Mi Ta Yu Sa Na Shi Ko Mo Ri A To Ki Fu Ma Hi No",
        "su ka mi ro to na ki sa ma ru shi",
        "ko mi ka na e yo ri",
        "ro to ki shi ta hiko suke ya",
        "moto mura yama kawa da saki hara shima guchi no",
    ),
    _origin(  # Romance
        "Al Ber Ca Do Es Fla Gio Lu Mar Pao Ro Sal Te Val Vi Ce Fe Or Gui Bea",
        "ri no le ti ve do ra ci mi lan",
        "ina etta ella ana isa ita onda ucia",
        "ino aldo ero ardo io esto andro ando",
        "elli ini ez eiro etti ano esco ard eau oux",
    ),
    _origin(  # Germanic
        "Hein Wal Lud Ber Frie Ot Gre Wil Ul El Her Kon Die Man Brun Sieg Rein",
        "d n l wi ri ga ber hel",
        "hild traud linde gard e a burg ine",
        "rich hard mar bert fried win mann old",
        "mann bauer stein hoff berger meier schmidt feld huber",
    ),
    _origin(  # Celtic
        "Cae Bran Bre Mor Gwen Dil Fin Eo Ros Tre Mae Ciar Lla Con Nia Row",
        "n w dd l r na ga li",
        "wen nan een a eth yn id wyn",
        "an on ach en gan ell or och",
        "wick more nell rigan gwyn ty don brook field worth",
    ),
    _origin(  # Turkish and Central Asian
        "Ay Bay Ci Em Gul Kar Na Or Se Tim Um Yil Al Er Jan Nur Bak",
        "ba ta sa ri la di ga mu",
        "nur gül a iz han ara elya",
        "han bek can tay at dar ir mat",
        "oğlu bayev tekin maz demir ov yan gil",
    ),
    _origin(  # of no origin
        "Zor Que Vex Blo Ny Pla Oru Dri Tho Xa Wi Gla Ske Mo Pel Ruf Tas Ven Yor Hu",
        "ba zi lo que ra ti no xe vi dru",
        "ela ith ara une ia osa wyn",
        "ax or ek in us ald orn",
        "quist more berry field ström vale ax ley ton wick",
    ),
)


def in_split(text: str, split: str) -> bool:
    """Return whether a name or number belongs to the split "train" or "test".

    >>> in_split("Alexander", "train") != in_split("Alexander", "test")
    True
    """
    digest = blake2b(text.lower().encode(), digest_size=4).digest()
    return (int.from_bytes(digest, "big") % TEST_SHARE == 0) == (split == "test")


def fresh(make: Callable[[], str], split: str) -> str:
    """Call ``make`` until it returns a text of the split."""
    for _ in range(_TRIES):
        text = make()
        if in_split(text, split):
            return text
    raise RuntimeError(f"no value of the split {split} was found in {_TRIES} tries")


def first_name(random: Random, split: str, gender: str | None = None) -> str:
    """Return a first name. ``gender`` is "f", "m" or None for any.

    >>> first_name(Random(5), "train")
    'Pelvibaorn'
    """
    gender = gender or random.choice("fm")

    def make() -> str:
        if random.random() < 0.25:
            return random.choice(_WOMEN if gender == "f" else _MEN)
        name = _invented(random, gender)
        return f"{name}-{_invented(random, gender)}" if random.random() < 0.04 else name

    return fresh(make, split)


def surname(random: Random, split: str) -> str:
    """Return a surname."""

    def make() -> str:
        if random.random() < 0.2:
            name = random.choice(_SURNAMES)
            return name if name not in _PREFIXES else f"{name} {_invented(random, 's')}"
        name = _invented(random, "s")
        draw = random.random()
        if draw < 0.04:
            return random.choice(("Mc", "Mac", "O'", "D'")) + name
        if draw < 0.07:
            return f"{random.choice(('Al', 'El', 'Ben', 'Saint'))}-{name}"
        if draw < 0.09:
            return f"{name}-{_invented(random, 's')}"
        return name

    return fresh(make, split)


def full_name(random: Random, split: str, gender: str | None = None) -> str:
    """Return a first name with a surname, sometimes with an initial between them."""
    first, last = first_name(random, split, gender), surname(random, split)
    if random.random() < 0.05:
        return f"{first} {random.choice('ABCDEFGHJKLMNPRSTW')}. {last}"
    return f"{first} {last}"


def place_name(random: Random, split: str) -> str:
    """Return the name of a place, such as a town or a street, without "street" itself."""

    def make() -> str:
        if random.random() < 0.3:
            return random.choice(_PLACES)
        ending = random.choice(
            ("ton", "ville", "burg", "ford", "stad", "grad", "pur", "abad", "shire", "land", "wick")
        )
        name = _invented(random, "s")
        return name if random.random() < 0.5 else name[: random.randrange(3, 7)] + ending

    return fresh(make, split)


def company_name(random: Random, split: str) -> str:
    """Return the name of a company, such as "Zorvale & Thoax" or "Mirena Systems"."""
    name = place_name(random, split)
    kinds = ("Systems", "Motors", "Foods", "Group", "Labs", "Airlines", "Bank", "Software", "Books", "Energy")
    draw = random.random()
    if draw < 0.4:
        return f"{name} {random.choice(kinds)}"
    return f"{name} & {surname(random, split)}" if draw < 0.6 else name


def _invented(random: Random, kind: str) -> str:
    """Return an invented name of a woman ("f"), a man ("m") or a family ("s")."""
    origin = random.choice(_ORIGINS)
    endings = {"f": origin.women, "m": origin.men, "s": origin.families}[kind]
    middle = "".join(random.choice(origin.middles) for _ in range(random.choice((0, 0, 1, 1, 1, 2))))
    return random.choice(origin.starts) + middle + random.choice(endings)
