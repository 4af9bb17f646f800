"""A translator that answers from a table instead of a model."""

from types import SimpleNamespace

from regard.tasks.translate import Translation, Translator
from regard.tasks.translate.casing import Casing
from regard.tasks.translate.normalized import translate_normalized
from regard.text import BytePairVocabulary


class Table:
    """Stands for a translator. It reads sentences, and answers from a table of their translations."""

    longest = 128
    attends = False

    def __init__(self, answers, language="fr", *, copy=True, source_language="en"):
        self.answers, self.read = answers, []
        texts = ["my password is in the house and the dog sleeps", *answers, *answers.values()] * 3
        self.source = self.target = BytePairVocabulary.train(texts, 300)
        self.casings = (Casing(self.source), Casing(self.target))
        self.source_language, self.target_language = source_language, language
        self.model = SimpleNamespace(config=SimpleNamespace(copy=copy))

    target_spans, spans_of = Translator.target_spans, Translator.spans_of
    pieces_of = Translator.pieces_of

    def translate(self, sentences, numbers):
        self.read += sentences
        ids = [self.target.encode(self.answers[sentence]) for sentence in sentences]
        pairs = zip(sentences, ids, strict=True)
        return [Translation(s, self.answers[s], 0.0, self.source.encode(s), some) for s, some in pairs]


def translated(text, answers, language="fr", **settings):
    """Return the translation of a text, and the sentences that were read."""
    table = Table(answers, language, **settings)
    (done,) = translate_normalized(table, [text], 0, table.translate)
    return done.text, table.read
