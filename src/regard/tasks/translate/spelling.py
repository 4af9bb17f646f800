"""English words of messages, abbreviations, British spellings and common misspellings, in their usual spelling.

The usual spelling is the American one, because Tatoeba, the training data of the shipped models, has hardly any other.
"""

from __future__ import annotations

import re

from regard.text.traced import TracedText

__all__ = ["with_usual_spelling"]

# Pairs of a spelling and the usual one. Words that have a meaning of their own, such as "its" and "ill", are left out.
_TABLE = """
u|you  ur|your  r|are  thx|thanks  thnx|thanks  tnx|thanks  pls|please  plz|please  wat|what  wut|what
cuz|because  coz|because  becuz|because  tmrw|tomorrow  tmr|tomorrow  tonite|tonight  ppl|people  btw|by the way
idk|I don't know  asap|as soon as possible  gonna|going to  wanna|want to  gotta|got to  gimme|give me  lemme|let me
dunno|don't know  kinda|kind of  outta|out of  im|I'm  ive|I've  dont|don't  cant|can't  wont|won't  didnt|didn't
doesnt|doesn't  isnt|isn't  arent|aren't  wasnt|wasn't  werent|weren't  havent|haven't  hasnt|hasn't  hadnt|hadn't
couldnt|couldn't  shouldnt|shouldn't  wouldnt|wouldn't  mustnt|mustn't  thats|that's  whats|what's  wheres|where's
whos|who's  hows|how's  theres|there's  heres|here's  youre|you're  theyre|they're  youve|you've  theyve|they've
weve|we've  hes|he's  shes|she's  youll|you'll  theyll|they'll
teh|the  adress|address  alot|a lot  becuase|because  begining|beginning  beleive|believe  definately|definitely
diffrent|different  freind|friend  goverment|government  happend|happened  neccessary|necessary  occured|occurred
recieve|receive  recieved|received  seperate|separate  thier|their  tommorow|tomorrow  tommorrow|tomorrow
tomorow|tomorrow  truely|truly  untill|until  wich|which  wierd|weird  yesturday|yesterday
"""
_BRITISH = """
colour|color  colours|colors  coloured|colored  colourful|colorful  favourite|favorite  favourites|favorites
favour|favor  favours|favors  centre|center  centres|centers  theatre|theater  theatres|theaters
neighbour|neighbor  neighbours|neighbors  neighbourhood|neighborhood  neighbouring|neighboring
behaviour|behavior  honour|honor  honours|honors  honoured|honored  humour|humor  flavour|flavor
flavours|flavors  labour|labor  rumour|rumor  rumours|rumors  harbour|harbor  travelling|traveling
travelled|traveled  traveller|traveler  travellers|travelers  cancelled|canceled  cancelling|canceling
jewellery|jewelry  programme|program  programmes|programs  grey|gray  metre|meter  metres|meters
kilometre|kilometer  kilometres|kilometers  centimetre|centimeter  centimetres|centimeters  litre|liter
litres|liters  cheque|check  cheques|checks  tyre|tire  tyres|tires  organise|organize  organised|organized
organising|organizing  organisation|organization  realise|realize  realised|realized  realises|realizes
apologise|apologize  apologised|apologized  recognise|recognize  recognised|recognized  criticise|criticize
criticised|criticized  analyse|analyze  analysed|analyzed  memorise|memorize  emphasise|emphasize
practise|practice  practised|practiced  practising|practicing  licence|license  defence|defense  offence|offense
aeroplane|airplane  aeroplanes|airplanes  pyjamas|pajamas  mum|mom  moustache|mustache  fulfil|fulfill
cosy|cozy  sceptical|skeptical  learnt|learned  dreamt|dreamed  spelt|spelled  spoilt|spoiled  maths|math
tonne|ton  tonnes|tons  doughnut|donut  doughnuts|donuts  yoghurt|yogurt  civilisation|civilization
specialise|specialize  specialised|specialized  sympathise|sympathize  hospitalised|hospitalized
aluminium|aluminum  marvellous|marvelous  skilful|skillful  lorry|truck  lorries|trucks  dialled|dialed
quarrelling|quarreling
"""
_SPELLINGS = {
    wrong: right
    for pair in re.split(r"\s{2,}|\n", (_TABLE + _BRITISH).strip())
    for wrong, right in [pair.split("|")]
}
# Single letters and the like are also parts of names, such as "R&B".
_WORD = re.compile(rf"(?<![\w'’&./@#-])(?:{'|'.join(_SPELLINGS)})(?![\w'’&/@-]|\.\w)", re.IGNORECASE)

# "No. 7", and countries with full stops, of which the last may end the sentence too.
_NUMBER = re.compile(r"\b(?P<first>[Nn])o\. (?=\d)")
_COUNTRY = re.compile(r"\bthe U\.(?P<name>S\.A|S|K)\.(?=(?P<end>$)|\s)")
_COUNTRIES = {"S": "United States", "S.A": "United States", "K": "United Kingdom"}


def with_usual_spelling(text: TracedText) -> TracedText:
    """Return an English text in which words of messages, British and wrong spellings have their usual spelling.

    Words in capitals stay, and so do words with a capital inside a sentence, because they may be names.

    >>> with_usual_spelling(TracedText("Thx, wat r u doing in the US?")).text
    'Thanks, what are you doing in the US?'
    >>> with_usual_spelling(TracedText("My favourite colour is grey, says Mr. Grey.")).text
    'My favorite color is gray, says Mr. Grey.'
    >>> with_usual_spelling(TracedText("Room no. 7 is in the U.S.")).text
    'Room number 7 is in the United States.'
    """
    text = text.replaced(_NUMBER, lambda match: "Number " if match["first"] == "N" else "number ", whole=True)
    text = text.replaced(_COUNTRY, _written_out, whole=True)
    return text.replaced(_WORD, _respelled, whole=True)


def _written_out(match: re.Match[str]) -> str:
    return f"the {_COUNTRIES[match['name']]}{'' if match['end'] is None else '.'}"


def _respelled(match: re.Match[str]) -> str:
    word = match.group()
    right = _SPELLINGS[word.lower()]
    if word.islower():
        return right
    return right[:1].upper() + right[1:] if not match.start() and word[1:].islower() else word
