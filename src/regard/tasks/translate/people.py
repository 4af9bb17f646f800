"""Which words of an English sentence in capitals are names of people and of countries."""

from __future__ import annotations

import re
from collections.abc import Callable

from regard.tasks.translate.countries import COUNTRIES

__all__ = ["capitalized_name"]

_TITLES_TEXT = "MR MRS MS DR PROF"
_TITLES = frozenset(_TITLES_TEXT.split())
# Words that are not only titles. A common word after them is a name only if it is known as one.
_TITLES_TOO = frozenset({"MISS", "PROFESSOR"})
# Words before the verb "miss".
_PRONOUNS = frozenset(("I", "YOU", "WE", "THEY", "TO"))
_FIRST_NAMES_TEXT = (
    "ADAM ALAN ALBERT ALEX ALEXANDER ALFRED ALICE AMANDA AMY ANDREA ANDREW ANGELA ANN ANNA ANNE ANTHONY "
    "ARTHUR BARBARA BEN BENJAMIN BETH BETTY BOB BRIAN CARL CAROL CAROLINE CATHERINE CHARLES CHARLIE "
    "CHARLOTTE CHRIS CHRISTINE CHRISTOPHER CLAIRE DAN DANIEL DAVID DEBORAH DENNIS DIANA DONALD DOROTHY "
    "DOUGLAS EDWARD ELEANOR ELIZABETH EMILY EMMA ERIC FRANCES FRANCIS FRANK FRED GARY GEORGE GRACE HANNAH "
    "HAROLD HARRY HELEN HENRY HUGH IAN ISABEL JACK JACOB JAMES JANE JANET JASON JEAN JEFF JENNIFER JENNY "
    "JEREMY JERRY JESSICA JIM JOAN JOE JOHN JONATHAN JOSEPH JOSHUA JUDITH JULIA JULIE KAREN KATE "
    "KATHERINE KEITH KELLY KEN KENNETH KEVIN LARRY LAURA LAUREN LEO LEWIS LILY LINDA LISA LOUIS LOUISE "
    "LUCY LUKE MARGARET MARIA MARIE MARK MARTHA MARTIN MARY MATTHEW MAX MEGAN MELISSA MICHAEL MICHELLE "
    "MIKE NANCY NATHAN NEIL NICHOLAS NICK NICOLE OLIVER OLIVIA OSCAR PAMELA PATRICIA PATRICK PAUL PETER "
    "PHILIP RACHEL RALPH RAY REBECCA RICHARD ROBERT ROBIN ROGER ROY RUTH RYAN SALLY SAM SAMANTHA SAMUEL "
    "SANDRA SARAH SCOTT SEAN SHARON SIMON SOPHIA SOPHIE STEPHEN STEVE STEVEN STUART SUSAN TED TERESA "
    "TERRY THOMAS TIM TIMOTHY TOM TONY VICTOR VICTORIA VINCENT VIRGINIA WALTER WENDY WILLIAM ZOE"
)
_FIRST_NAMES = frozenset(_FIRST_NAMES_TEXT.split())
# Surnames that are also words, or that end like a verb.
_SURNAMES_TEXT = (
    "ADAMS ANDREWS ARCHER BAKER BANKS BARBER BARNES BECKETT BELL BERRY BIRD BISHOP BLACK BLAIR BOND "
    "BROOKS BROWN BURNS BUSH BUTCHER BUTLER CARPENTER CARTER CHAMBERS CHRISTIE CLARK COLE COLLINS COOK "
    "COOPER CROSS CRUZ DAVIES DAVIS DAY DEAN DUNN EDWARDS EVANS FARMER FIELD FIELDS FISHER FLETCHER "
    "FLOWERS FORD FOREST FOSTER FOX FRANKLIN FREEMAN FRENCH FRY GARDNER GIBBS GOLD GRANT GRAVES GRAY "
    "GREEN GREENE GREY GRIFFITHS HALL HARDY HARRIS HART HAYES HICKS HILL HILLS HOLMES HOOD HOPKINS HOWARD "
    "HUGHES HUNT HUNTER JENKINS JONES JORDAN JUDGE KELLY KEYS KING KLEIN KNIGHT LAKE LAMB LANE LAW LEE "
    "LEWIS LITTLE LONG LOPEZ LOWE MARSH MARSHALL MARTIN MASON MATTHEWS MEYER MILLER MILLS MOORE MORRIS "
    "MYERS NASH NELSON NICHOLS NOBLE PAGE PALMER PARK PARKER PARSONS PEARCE PEARSON PERKINS PETERS "
    "PHILLIPS PIERCE PITT POOL POPE PORTER POTTER POWERS PRICE PRINCE READ REED REYNOLDS RICE RICHARDS "
    "RIVERS ROBBINS ROBERTS ROGERS ROSE ROSS SANDERS SCOTT SHARP SHEPHERD SHORT SIMMONS SINGER SKINNER "
    "SLATER SMITH SNOW SPENCER STARK STEELE STEPHENS STEVENS STONE STRANGE STREET STRONG SUMMERS SWAN "
    "SWIFT TAILOR TAYLOR THOMAS TURNER WALKER WALLS WALTERS WARD WATERS WATKINS WATTS WEAVER WEBB WEBER "
    "WELLS WEST WHEELER WHITE WILLIAMS WISE WOLF WOOD WOODS WRIGHT YORK YOUNG"
)
_SURNAMES = frozenset(_SURNAMES_TEXT.split())
# A word that may be a surname. Those left out may be verbs such as "GREW" and "SNORED", or adverbs.
_LONG_WORD = re.compile(r"(?!.*(?:S|ED|ING|LY)$)(?:O['’])?[^\W\d_]{5,}")
_LAST_WORD = re.compile(r"([^\W\d_]+)\.? $")
_NEXT_WORD = re.compile(r"\.? ([^\W\d_]+)")
_POSSESSIVE = re.compile(r"['’]S$", re.IGNORECASE)


def capitalized_name(match: re.Match[str], is_common: Callable[[str], bool]) -> str | None:
    """Return a title, a name or a country in capitals with only its first letters large, or None for other words.

    ``match`` is the word in its sentence, and ``is_common`` tells common words of the language. A surname follows a
    title or a known first name.

    >>> words = re.finditer(r"\\w+", "MRS BROWN AND JOHN SMITH SMELL BROWN BREAD")
    >>> [name for word in words if (name := capitalized_name(word, lambda word: True))]
    ['Mrs', 'Brown', 'John', 'Smith']
    """
    word = _POSSESSIVE.sub("", match.group())
    before = _LAST_WORD.search(match.string[: match.start()])
    after = _NEXT_WORD.match(match.string, match.end())
    previous = before[1] if before else ""
    if word in _TITLES | _TITLES_TOO:
        is_name = after is not None and (word in _TITLES or _is_surname(after[1], is_common))
        is_name = is_name and previous not in _PRONOUNS
    elif previous in _TITLES or (previous in _FIRST_NAMES | _TITLES_TOO and _is_surname(word, is_common)):
        is_name = True
    elif word.title() in COUNTRIES:
        is_name = not is_common(word)
    else:
        # Such as "MARK", which is a name only before a surname.
        is_name = word in _FIRST_NAMES and (
            not is_common(word) or (after is not None and after[1] in _SURNAMES)
        )
    return word.title() + match.group()[len(word) :].lower() if is_name else None


def _is_surname(word: str, is_common: Callable[[str], bool]) -> bool:
    return word in _SURNAMES or (_LONG_WORD.fullmatch(word) is not None and not is_common(word))
