"""Tests of the embedded corpus, its sentences in three languages, its word links and its splits."""

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import islice, pairwise
from random import Random

import pytest

from regard.corpus import LEFT_OUT, SPLITS, Triple, generate, split_of
from regard.corpus.chinese import chinese
from regard.corpus.clauses import pronoun_for
from regard.corpus.conjugation import conjugate, imperative, participle
from regard.corpus.english import english
from regard.corpus.french import french, spell, starts_with_vowel
from regard.corpus.lexicon.adjectives import ADJECTIVES, DEGREES
from regard.corpus.lexicon.function_words import (
    ALSO,
    CONNECTIVES,
    FREQUENCIES,
    MANNERS,
    NEVER,
    PREPOSITIONS,
    PRONOUNS,
    SPOTS,
    TIMES,
    TOWARDS,
)
from regard.corpus.lexicon.nouns import NOUNS
from regard.corpus.lexicon.verbs import BE, MODALS, VERBS, WEATHER
from regard.corpus.meaning import (
    Clause,
    Compound,
    Pair,
    Person,
    Place,
    Quality,
    Statement,
    Thing,
    Units,
    When,
)
from regard.corpus.questions import passages
from regard.corpus.sentences import write_chinese, write_english, write_french
from regard.corpus.statements import StatementMaker
from regard.errors import ArgumentError, RegardError


def realise(statement: Statement) -> Triple:
    """Return the sentence of a meaning tree in the three languages."""
    return Triple(
        write_english(english(statement)), write_french(french(statement)), write_chinese(chinese(statement))
    )


# Meanings, made by hand. One stream of units serves them all.

UNITS = Units()
take = UNITS.take


def adjective(name: str, noun: str = "") -> Quality:
    classes = NOUNS[noun].classes if noun else None
    found = [a for a in ADJECTIVES if a.en == name and (classes is None or classes & set(a.classes))]
    return Quality(found[0], take())


def thing(words: str, plural: bool = False, **more) -> Thing:
    """Build a noun phrase such as `the big red car` from a determiner, adjectives and a noun."""
    determiner, *qualities, noun = words.split()
    found = [adjective(name, noun) for name in qualities] + [None, None]
    return Thing(NOUNS[noun], take(), determiner, take(), plural, found[0], found[1], **more)


def name(word: str) -> Thing:
    return Thing(NOUNS[word], take(), "none", 0)


def he(word: str) -> Person:
    return Person(PRONOUNS[word], take())


def of(owner, words: str, plural: bool = False) -> Thing:
    return thing("owner " + words, plural, owner=owner, of_unit=take())


def whole(words: str, other: str) -> Thing:
    return thing(words, whole=thing(other), of_unit=take())


def where(preposition: str, words: str, plural: bool = False) -> Place:
    found = next(p for p in (*PREPOSITIONS, TOWARDS) if " ".join(p.en) == preposition)
    return Place(take(), found, thing(words, plural))


def spot(word: str) -> Place:
    return Place(UNITS.take_three(), spot=next(s for s in SPOTS if s.en[-1][0] == word))


def when(words: str, front: bool = False) -> When:
    return When(next(t for t in TIMES if " ".join(w for w, _, _ in t.en) == words), UNITS.take_three(), front)


def do(
    subject, verb: str, tense: str = "present", *, no: bool = False, frame: str = "", modal: str = "", **more
) -> Clause:
    """Build a clause from the English verb with its particle, where `fr` chooses among its French translations."""
    fr = more.pop("fr", "")
    options = [v for v in (*VERBS, *WEATHER, BE) if f"{v.en} {v.particle}".strip() == verb]
    found = next(v for v in options if (not frame or v.frame == frame) and (not fr or fr in (v.fr, v.zh)))
    clause = Clause(found, take(), take(), tense, subject, **more)
    if no:
        clause.negative = take()
    if modal:
        clause.modal, clause.modal_unit = next(m for m in MODALS if m.en == modal), take()
    for key in ("often", "manner"):
        if more.get(key):
            setattr(clause, key + "_unit", take())
    if clause.extra == 0:
        clause.extra = take()
    return clause


def be(
    subject, quality: str, tense: str = "present", *, no: bool = False, degree: str = "", than=None, **more
) -> Clause:
    noun = subject.noun.en if isinstance(subject, Thing) else "man"
    clause = do(subject, "be", tense, no=no, quality=adjective(quality, noun), **more)
    if degree:
        clause.quality.degree = next(d for d in DEGREES if d.en == degree)
    clause.quality.than, clause.quality.degree_unit, clause.quality.than_unit = than, take(), take()
    return clause


def sky(word: str, tense: str, **more) -> Clause:
    made = StatementMaker(Random(0))
    for _ in range(1000):
        clause = made.weather()
        if (
            clause.quality is not None
            and clause.quality.adjective.en == word
            and clause.quality.degree is None
        ):
            quality = Quality(clause.quality.adjective, take())
            return do(None, "be", tense, quality=quality, kind="weather", **more)
    raise AssertionError(word)


def join(word: str, first, second, before: bool = False) -> Compound:
    if word == "when":
        second.during = True
    return Compound(CONNECTIVES[word], take(), first, second, before, take())


def who(head: Thing, clause: Clause, gap: str = "") -> Thing:
    clause.head, clause.gap, head.relative, head.relative_unit = head, gap, clause, take()
    return head


def says(subject, verb: str, clause, tense: str = "present", that: bool = True) -> Clause:
    return do(subject, verb, tense, frame="c", said=clause, said_unit=take(), that=that)


def sentence(body, mark: str = ".") -> Triple:
    unit = take()
    if mark == "?":
        body.mark, body.ask_unit = unit, take()
    return realise(Statement(body, mark, unit))


def adverb(word: str):
    return next(a for a in (*FREQUENCIES, *MANNERS, ALSO, NEVER) if a.en == word)


def ask(clause: Clause, word: str = "yes") -> Clause:
    clause.ask = word
    return clause


CASES = [
    # The documents' own sentences: left out of the corpus, but within the grammar
    (do(thing("the cat"), "sit", place=where("on", "the mat")), ".",
     "The cat sits on the mat.", "Le chat est assis sur le tapis.", "猫坐在垫子上。"),
    (do(thing("the cat"), "sit", "past", place=where("on", "the mat")), ".",
     "The cat sat on the mat.", "Le chat était assis sur le tapis.", "猫坐在垫子上。"),
    (do(thing("the cat"), "sit", "now", place=where("on", "the mat")), ".",
     "The cat is sitting on the mat.", "Le chat est assis sur le tapis.", "猫坐在垫子上。"),
    (do(he("I"), "love", object=he("you")), ".", "I love you.", "Je t'aime.", "我爱你。"),
    (join("because", do(thing("the animal"), "cross", "past", no=True, short=True, object=thing("the street")),
          be(he("it"), "tired", "past", degree="too")), ".",
     "The animal didn't cross the street because it was too tired.",
     "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.", "动物没有穿过街，因为它太累了。"),
    # Tenses
    (do(thing("a woman"), "eat", object=thing("the apple")), ".",
     "A woman eats the apple.", "Une femme mange la pomme.", "一个女人吃苹果。"),
    (do(he("she"), "eat", "past", object=thing("a apple")), ".",
     "She ate an apple.", "Elle a mangé une pomme.", "她吃了一个苹果。"),
    (do(he("we"), "go", "past", goal=where("to", "the market")), ".",
     "We went to the market.", "Nous sommes allés au marché.", "我们去了市场。"),
    (do(name("Mary"), "go", "past", frame="g", goal=spot("China")), ".",
     "Mary went to China.", "Marie est allée en Chine.", "玛丽去了中国。"),
    (do(he("they"), "drink", "now", object=thing("bare water")), ".",
     "They are drinking water.", "Ils boivent de l'eau.", "他们正在喝水。"),
    (do(he("I"), "sleep", "then", short=True), ".", "I was sleeping.", "Je dormais.", "我正在睡觉。"),
    (do(he("I"), "come", "future", short=True, time=when("tomorrow")), ".",
     "I'll come tomorrow.", "Je viendrai demain.", "我明天会来。"),
    (do(thing("the girl", True), "buy", "perfect", object=thing("I bread")), ".",
     "The girls have already bought my bread.", "Les filles ont déjà acheté mon pain.", "女孩们已经买了我的面包。"),
    (do(he("she"), "get up", "past", time=when("this morning", True)), ".",
     "This morning she got up.", "Ce matin, elle s'est levée.", "今天早上她起床了。"),
    (do(he("he"), "live", "past", place=spot("Paris")), ".",
     "He lived in Paris.", "Il habitait à Paris.", "他住在巴黎。"),
    (do(he("you"), "sit", "future", place=where("under", "this tree")), ".",
     "You will sit under this tree.", "Tu t'assiéras sous cet arbre.", "你会坐在这棵树下面。"),
    # Negation
    (do(he("he"), "have", no=True, short=True, object=thing("a car")), ".",
     "He doesn't have a car.", "Il n'a pas de voiture.", "他没有汽车。"),
    (do(he("I"), "eat", "past", no=True, object=thing("bare meat")), ".",
     "I did not eat meat.", "Je n'ai pas mangé de viande.", "我没有吃肉。"),
    (do(he("she"), "see", no=True, short=True, object=he("they")), ".",
     "She doesn't see them.", "Elle ne les voit pas.", "她看不见他们。"),
    (do(he("we"), "like", no=True, object=thing("bare orange", True)), ".",
     "We do not like oranges.", "Nous n'aimons pas les oranges.", "我们不喜欢橙子。"),
    (do(name("Tom"), "cry", no=True, often=NEVER), ".", "Tom never cries.", "Tom ne pleure jamais.", "汤姆从不哭。"),
    (do(he("it"), "eat", "now", no=True, short=True, object=thing("the egg", True)), ".",
     "It isn't eating the eggs.", "Il ne mange pas les œufs.", "它没有在吃鸡蛋。"),
    # Nouns, articles, adjectives
    (be(thing("the big red car"), "expensive", degree="very"), ".",
     "The big red car is very expensive.", "La grande voiture rouge est très chère.", "红色的大汽车非常昂贵。"),
    (do(he("he"), "draw", object=thing("a beautiful bird")), ".",
     "He draws a beautiful bird.", "Il dessine un bel oiseau.", "他画一只漂亮的鸟。"),
    (do(he("he"), "look for", object=thing("a old hotel")), ".",
     "He looks for an old hotel.", "Il cherche un vieil hôtel.", "他寻找一家旧酒店。"),
    (do(he("I"), "draw", object=thing("bare small rabbit", True)), ".",
     "I draw small rabbits.", "Je dessine de petits lapins.", "我画小兔子。"),
    (do(thing("two cat", True), "sleep"), ".", "Two cats sleep.", "Deux chats dorment.", "两只猫睡觉。"),
    (do(thing("this man"), "know", fr="认识", object=thing("that student", True)), ".",
     "This man knows those students.", "Cet homme connaît ces étudiants.", "这个男人认识那些学生。"),
    (be(thing("every student"), "busy"), ".",
     "Every student is busy.", "Chaque étudiant est occupé.", "每个学生都很忙。"),
    (do(he("she"), "have", object=thing("many friend", True)), ".",
     "She has many friends.", "Elle a beaucoup d'amis.", "她有很多朋友。"),
    (do(he("she"), "lose", "past", object=thing("she scarf")), ".",
     "She lost her scarf.", "Elle a perdu son écharpe.", "她弄丢了她的围巾。"),
    (do(he("I"), "find", "past", object=of(name("Tom"), "key", True)), ".",
     "I found Tom's keys.", "J'ai trouvé les clés de Tom.", "我找到了汤姆的钥匙。"),
    (do(he("you"), "open", "past", object=whole("the door", "the hospital")), ".",
     "You opened the door of the hospital.", "Tu as ouvert la porte de l'hôpital.", "你打开了医院的门。"),
    (do(he("we"), "need", object=thing("some water")), ".",
     "We need some water.", "Nous avons besoin d'eau.", "我们需要一些水。"),
    (do(he("he"), "play", frame="t", fr="弹", object=thing("the piano")), ".",
     "He plays the piano.", "Il joue du piano.", "他弹钢琴。"),
    (do(he("she"), "speak", object=thing("bare French")), ".",
     "She speaks French.", "Elle parle français.", "她说法语。"),
    (do(he("I"), "learn", "now", short=True, object=thing("bare English")), ".",
     "I'm learning English.", "J'apprends l'anglais.", "我正在学英语。"),
    # States and qualities
    (be(thing("the girl", True), "tired", no=True), ".",
     "The girls are not tired.", "Les filles ne sont pas fatiguées.", "女孩们不累。"),
    (be(he("I"), "hungry", short=True), ".", "I'm hungry.", "J'ai faim.", "我很饿。"),
    (be(name("Anna"), "tall", than=thing("I brother")), ".",
     "Anna is taller than my brother.", "Anna est plus grande que mon frère.", "安娜比我的哥哥更高。"),
    (be(thing("I dress"), "blue"), ".", "My dress is blue.", "Ma robe est bleue.", "我的连衣裙是蓝色的。"),
    (be(thing("the child", True), "sick", "past"), ".",
     "The children were sick.", "Les enfants étaient malades.", "孩子们生病了。"),
    (do(name("Tom"), "be", object=thing("role doctor")), ".", "Tom is a doctor.", "Tom est médecin.", "汤姆是医生。"),
    (do(thing("I sister", True), "be", object=thing("role student", True)), ".",
     "My sisters are students.", "Mes sœurs sont étudiantes.", "我的姐姐们是学生。"),
    (do(name("Paul"), "be", "past", no=True, short=True, object=thing("role nurse")), ".",
     "Paul wasn't a nurse.", "Paul n'était pas infirmier.", "保罗不是护士。"),
    (do(thing("the key", True), "be", place=where("next to", "the lamp")), ".",
     "The keys are next to the lamp.", "Les clés sont à côté de la lampe.", "钥匙在灯旁边。"),
    (do(thing("a cat"), "be", kind="there", place=where("behind", "the door")), ".",
     "There is a cat behind the door.", "Il y a un chat derrière la porte.", "门后面有一只猫。"),
    (do(thing("a tree"), "be", "past", no=True, short=True, kind="there", place=where("in", "the garden")), ".",
     "There wasn't a tree in the garden.", "Il n'y avait pas d'arbre dans le jardin.", "花园里没有树。"),
    (do(None, "be", kind="those", object=thing("we book", True)), ".",
     "Those are our books.", "Ce sont nos livres.", "那些是我们的书。"),
    (do(None, "be", no=True, kind="this", object=thing("the key")), ".",
     "This is not the key.", "Ce n'est pas la clé.", "这不是钥匙。"),
    (do(None, "rain", "future", kind="weather", time=when("tomorrow")), ".",
     "It will rain tomorrow.", "Il pleuvra demain.", "明天会下雨。"),
    (sky("cold", "past", time=when("yesterday")), ".",
     "It was cold yesterday.", "Il faisait froid hier.", "昨天天气很冷。"),
    # Objects and receivers
    (do(he("he"), "see", "past", object=he("she")), ".", "He saw her.", "Il l'a vue.", "他看见了她。"),
    (do(he("she"), "give", object=thing("a book"), receiver=he("he"), moved=True), ".",
     "She gives him a book.", "Elle lui donne un livre.", "她给他一本书。"),
    (do(he("she"), "send", "past", object=thing("a letter"), receiver=thing("the uncle", True)), ".",
     "She sent a letter to the uncles.", "Elle a envoyé une lettre aux oncles.", "她寄给了叔叔们一封信。"),
    (do(he("I"), "talk to", "now", short=True, object=he("they")), ".",
     "I'm talking to them.", "Je leur parle.", "我正在和他们说话。"),
    (do(he("he"), "dance with", "past", object=he("she")), ".",
     "He danced with her.", "Il a dansé avec elle.", "他和她跳舞了。"),
    # Modal verbs, adverbs, places
    (do(he("you"), "help", modal="can", no=True, short=True, object=he("I")), ".",
     "You can't help me.", "Tu ne peux pas m'aider.", "你不能帮助我。"),
    (do(he("he"), "sleep", modal="must", no=True), ".",
     "He must not sleep.", "Il ne doit pas dormir.", "他不可以睡觉。"),
    (do(he("she"), "sit", modal="want", place=spot("here")), ".",
     "She wants to sit here.", "Elle veut s'asseoir ici.", "她想坐在这里。"),
    (do(he("we"), "travel", modal="going", short=True), ".",
     "We're going to travel.", "Nous allons voyager.", "我们打算旅行。"),
    (do(he("they"), "work", modal="should", manner=adverb("together")), ".",
     "They should work together.", "Ils devraient travailler ensemble.", "他们应该一起工作。"),
    (do(he("he"), "read", "now", object=thing("a newspaper"), place=where("at", "the station")), ".",
     "He is reading a newspaper at the station.", "Il lit un journal à la gare.", "他正在车站读一份报纸。"),
    (do(name("Emma"), "swim", often=adverb("often"), place=where("in", "the lake")), ".",
     "Emma often swims in the lake.", "Emma nage souvent dans le lac.", "艾玛经常在湖里游泳。"),
    # Questions and commands
    (ask(do(he("she"), "like", object=thing("bare dog", True))), "?",
     "Does she like dogs?", "Est-ce qu'elle aime les chiens ?", "她喜欢狗吗？"),
    (ask(do(he("you"), "eat", "past"), "what"), "?",
     "What did you eat?", "Qu'est-ce que tu as mangé ?", "你吃了什么？"),
    (ask(be(name("Alice"), "sad"), "why"), "?",
     "Why is Alice sad?", "Pourquoi est-ce qu'Alice est triste ?", "爱丽丝为什么伤心？"),
    (ask(do(thing("I key", True), "be"), "where"), "?", "Where are my keys?", "Où sont mes clés ?", "我的钥匙在哪里？"),
    (ask(do(he("they"), "live"), "where"), "?",
     "Where do they live?", "Où est-ce qu'ils habitent ?", "他们住在哪里？"),
    (do(he("who"), "close", "past", object=thing("the window")), "?",
     "Who closed the window?", "Qui a fermé la fenêtre ?", "谁关上了窗户？"),
    (do(None, "open", "command", object=thing("the window"), polite=True), ".",
     "Please open the window.", "S'il te plaît, ouvre la fenêtre.", "请打开窗户。"),
    (do(None, "help", "command", object=he("I")), "!", "Help me!", "Aide-moi !", "帮助我！"),
    (do(None, "wait for", "command", no=True, short=True, object=he("he")), ".",
     "Don't wait for him.", "Ne l'attends pas.", "不要等他。"),
    (do(None, "get up", "command"), ".", "Get up.", "Lève-toi.", "起床。"),
    # Clauses in clauses
    (join("when", do(he("he"), "sleep", "then"), do(he("I"), "arrive", "past"), before=True), ".",
     "When I arrived, he was sleeping.", "Quand je suis arrivé, il dormait.", "当我到的时候，他正在睡觉。"),
    (join("if", do(he("we"), "stay", "future", place=spot("home")), do(None, "snow", kind="weather")), ".",
     "We will stay at home if it snows.", "Nous resterons à la maison s'il neige.", "如果下雪，我们会待在家里。"),
    (join("if", do(name("Sarah"), "jump", "future", no=True, short=True),
          be(he("she"), "tired", stands_for=NOUNS["Sarah"].classes)), ".",
     "Sarah won't jump if she is tired.", "Sarah ne sautera pas si elle est fatiguée.",
     "如果莎拉很累，她不会跳。"),
    (join("but", be(thing("the cow"), "big"), be(he("it f"), "intelligent")), ".",
     "The cow is big, but it is intelligent.", "La vache est grande, mais elle est intelligente.",
     "奶牛很大，但是它很聪明。"),
    (do(who(thing("the man"), do(None, "live", place=spot("London"))), "buy", "past", object=thing("a boat")), ".",
     "The man who lives in London bought a boat.", "L'homme qui habite à Londres a acheté un bateau.",
     "住在伦敦的男人买了一艘船。"),
    (do(he("I"), "eat", "future", object=who(thing("the apple", True), do(he("she"), "buy", "past"), "object")), ".",
     "I will eat the apples that she bought.", "Je mangerai les pommes qu'elle a achetées.", "我会吃她买的苹果。"),
    (says(he("I"), "think", be(thing("the dog"), "hungry")), ".",
     "I think that the dog is hungry.", "Je pense que le chien a faim.", "我认为狗很饿。"),
    (says(name("Paul"), "say", be(he("he"), "busy", "past"), "past", that=False), ".",
     "Paul said he was busy.", "Paul a dit qu'il était occupé.", "保罗说他很忙。"),
    (do(Pair(name("Tom"), name("Mary"), take()), "play", "now", frame="i", place=where("in", "the park")), ".",
     "Tom and Mary are playing in the park.", "Tom et Marie jouent dans le parc.", "汤姆和玛丽正在公园里玩。"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "mark", "en", "fr", "zh"), CASES, ids=[case[2] for case in CASES])
def test_sentences_have_the_three_texts_written_by_hand(body, mark, en, fr, zh):
    triple = sentence(body, mark)
    assert (triple.english.text, triple.french.text, triple.chinese.text) == (en, fr, zh)


def test_the_spot_sentences_cover_every_frame_tense_and_joint():
    bodies = [case[0] for case in CASES]
    clauses = [body for body in bodies if isinstance(body, Clause)]
    assert {clause.verb.frame for clause in clauses} >= {"i", "t", "d", "p", "g", "c", "be", "w"}
    assert {clause.tense for clause in clauses} >= {
        "present",
        "past",
        "future",
        "now",
        "then",
        "perfect",
        "command",
    }
    assert {clause.ask for clause in clauses} >= {"yes", "what", "why", "where"}
    assert len(CASES) >= 60


# Links


def linked(triple: Triple, source: str, target: str, kind: str) -> set[tuple[str, str]]:
    words, others = triple.side(source).words, triple.side(target).words
    return {(words[i], others[j]) for i, j in getattr(triple.links(source, target), kind)}


def test_links_of_a_simple_sentence():
    triple = sentence(do(thing("the cat"), "sit", place=where("on", "a mat")))
    assert linked(triple, "en", "fr", "sure") == {
        ("The", "Le"), ("cat", "chat"), ("sits", "est"), ("sits", "assis"), ("on", "sur"), ("a", "un"),
        ("mat", "tapis"), (".", "."),
    }  # fmt: skip
    assert linked(triple, "en", "zh", "sure") == {
        ("cat", "猫"), ("sits", "坐"), ("on", "在"), ("on", "上"), ("a", "一"), ("mat", "垫子"), (".", "。"),
    }  # fmt: skip
    extra = linked(triple, "en", "zh", "possible") - linked(triple, "en", "zh", "sure")
    assert extra == {("The", "猫"), ("sits", "在"), ("a", "块"), ("mat", "块")}


def test_links_of_a_negation():
    triple = sentence(do(he("he"), "eat", "past", no=True, short=True, object=thing("the apple")))
    sure, possible = linked(triple, "en", "fr", "sure"), linked(triple, "en", "fr", "possible")
    assert {("didn't", "n'"), ("didn't", "pas"), ("eat", "mangé")} <= sure
    assert ("didn't", "a") in possible - sure
    assert ("didn't", "没有") in linked(triple, "en", "zh", "sure")
    long = sentence(do(he("he"), "eat", "past", no=True, object=thing("the apple")))
    assert {("not", "n'"), ("not", "pas"), ("did", "a")} <= linked(long, "en", "fr", "sure")


def test_links_cross_where_the_orders_differ():
    triple = sentence(
        do(he("I"), "read", object=who(thing("the red book"), do(he("she"), "buy", "past"), "object"))
    )
    assert triple.english.text == "I read the red book that she bought."
    assert {("red", "rouge"), ("book", "livre"), ("that", "qu'"), ("bought", "acheté")} <= linked(
        triple, "en", "fr", "sure"
    )
    assert {("book", "书"), ("bought", "买"), ("she", "她")} <= linked(triple, "en", "zh", "sure")
    assert ("that", "的") in linked(triple, "en", "zh", "possible") - linked(triple, "en", "zh", "sure")
    assert {("qu'", "的"), ("rouge", "的")} <= linked(triple, "fr", "zh", "possible")


def test_links_of_contracted_words_go_to_both_of_their_parts():
    triple = sentence(do(he("I"), "go", "now", frame="g", short=True, goal=where("to", "the market")))
    assert triple.english.words[0] == "I'm"
    assert {("to", "au"), ("the", "au"), ("I'm", "Je")} <= linked(triple, "en", "fr", "sure")
    assert ("I'm", "正在") in linked(triple, "en", "zh", "sure")


def test_links_of_a_question():
    triple = sentence(ask(do(he("she"), "like", object=thing("bare dog", True))), "?")
    assert {("Does", "吗"), ("?", "吗"), ("?", "？")} <= linked(triple, "en", "zh", "possible")
    assert {("Does", "Est-ce"), ("dogs", "les")} <= linked(triple, "en", "fr", "possible")
    assert ("dogs", "chiens") in linked(triple, "en", "fr", "sure")


# Morphology


@pytest.mark.parametrize(
    ("infinitive", "tense", "forms"),
    [
        ("manger", "present", "mange manges mange mangeons mangent"),
        ("lancer", "imperfect", "lançais lançais lançait lancions lançaient"),
        ("acheter", "future", "achèterai achèteras achètera achèterons achèteront"),
        ("appeler", "present", "appelle appelles appelle appelons appellent"),
        ("préférer", "present", "préfère préfères préfère préférons préfèrent"),
        ("protéger", "present", "protège protèges protège protégeons protègent"),
        ("nettoyer", "present", "nettoie nettoies nettoie nettoyons nettoient"),
        ("choisir", "present", "choisis choisis choisit choisissons choisissent"),
        ("vendre", "imperfect", "vendais vendais vendait vendions vendaient"),
        ("être", "imperfect", "étais étais était étions étaient"),
        ("envoyer", "future", "enverrai enverras enverra enverrons enverront"),
        ("voir", "imperfect", "voyais voyais voyait voyions voyaient"),
        ("devoir", "conditional", "devrais devrais devrait devrions devraient"),
    ],
)
def test_conjugated_verbs_are_those_written_by_hand(infinitive, tense, forms):
    assert [conjugate(infinitive, tense, slot) for slot in range(5)] == forms.split()


def test_every_french_verb_can_be_conjugated():
    names = {verb.fr for verb in (*VERBS, *WEATHER, BE)} | {modal.fr for modal in MODALS}
    for verb in names:
        forms = [
            conjugate(verb, tense, slot) for tense in ("present", "imperfect", "future") for slot in range(5)
        ]
        assert all(forms)
        assert imperative(verb)
        assert participle(verb, "f", True).endswith("es")
    with pytest.raises(ArgumentError, match="principal parts"):
        conjugate("xyz", "present", 0)
    with pytest.raises(ArgumentError, match="unknown tense"):
        conjugate("aimer", "subjunctive", 0)


def test_elision_and_contraction_are_those_written_by_hand():
    def joined(text: str) -> str:
        return " ".join(word for word, _, _ in spell([(word, 1, 0) for word in text.split()]))

    assert joined("de le homme") == "de l' homme"
    assert joined("à les enfants de le roi") == "aux enfants du roi"
    assert joined("parce que il ne y a") == "parce qu' il n' y a"
    assert joined("si il si elle") == "s' il si elle"
    assert joined("le mur haut de la île") == "le mur haut de l' île"


@pytest.mark.parametrize(
    ("phrase", "pronoun"),
    [
        (thing("the cow"), "it f"),
        (thing("the dog"), "it"),
        (thing("the dog", True), "they it"),
        (thing("the cow", True), "they it f"),
        (thing("the girl"), "she"),
        (thing("the boy", True), "they"),
        (Pair(name("Anna"), name("Mary"), 1), "they f"),
        (Pair(name("Anna"), name("Tom"), 1), "they"),
        (he("we"), "we"),
    ],
)
def test_a_subject_is_taken_up_by_its_pronoun(phrase, pronoun):
    assert pronoun_for(phrase) == pronoun


# Guarantees over many sentences


@pytest.fixture(scope="module")
def many() -> list[Triple]:
    return list(generate(20_000, seed=1))


def test_the_same_seed_gives_the_same_sentences_everywhere():
    def digest(hash_seed: str) -> str:
        code = (
            "from hashlib import blake2b\nfrom regard.corpus import generate\n"
            "text = '\\n'.join(f'{t.english.text}|{t.french.text}|{t.chinese.text}' for t in generate(1000))\n"
            "print(blake2b(text.encode(), digest_size=8).hexdigest())"
        )
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
        )
        return run.stdout.strip()

    assert digest("1") == digest("2") == DIGEST


# Of the first 1000; changes with every change of the grammar, on purpose.
DIGEST = "812a1f8f48409349"


def test_another_seed_gives_others():
    first, second = ({t.english.text for t in generate(300, seed=seed)} for seed in (0, 1))
    assert len(first & second) < 60


def test_a_longer_call_begins_like_a_shorter_one():
    assert list(generate(20, seed=4)) == list(islice(generate(seed=4), 20))
    assert list(generate(0)) == []


def test_splits_are_disjoint_and_of_the_promised_sizes(many):
    sets = {name: [t.english.text for t in generate(60, split=name, seed=2)] for name in ("valid", "test")}
    for name, texts in {**sets, "train": [t.english.text for t in many]}.items():
        assert {split_of(text) for text in texts} == {name}
    maker = StatementMaker(Random(7))
    sizes = Counter(split_of(realise(maker.statement()).english.text) for _ in range(4000))
    assert set(sizes) == set(SPLITS)
    assert sizes["train"] / 4000 == pytest.approx(0.98, abs=0.01)


def test_a_contraction_does_not_cross_the_splits(many):
    short = [triple.english.text for triple in many if expanded(triple.english.text) != triple.english.text]
    assert len(short) > 2000
    for text in short:
        assert split_of(expanded(text)) == split_of(text), text


def test_no_sentence_comes_twice(many):
    assert len({t.english.text for t in many}) == len(many)


def test_words_are_where_the_spans_say(many):
    for triple in many:
        for side in (triple.english, triple.french, triple.chinese):
            assert side.text
            assert len(side.words) == len(side.spans) >= 2
            assert all(side.text[a:b] == word for word, (a, b) in zip(side.words, side.spans, strict=True))
            assert all(a[1] <= b[0] for a, b in pairwise(side.spans))
            left = "".join(side.words).replace(" ", "")
            assert left == side.text.replace(" ", "")


def test_links_stay_within_the_sentence_and_reach_every_word(many):
    for triple in many[:3000]:
        for source, target in (("en", "fr"), ("en", "zh"), ("fr", "zh")):
            links = triple.links(source, target)
            assert links.sure <= links.possible
            assert {i for i, _ in links.possible} == set(range(len(triple.side(source).words)))
            assert {j for _, j in links.possible} == set(range(len(triple.side(target).words)))
            back = triple.links(target, source)
            assert {(j, i) for i, j in links.possible} == back.possible
            assert {(j, i) for i, j in links.sure} == back.sure


PLAIN_ELISION = re.compile(r"\b(le|la|de|ne|je|que|me|te|se|parce que) (?=[aeiouyéèêâîôœh])", re.IGNORECASE)


NOT_BEFORE_VOWELS = {
    ("vieux", noun.fr)
    for noun in NOUNS.values()
    if starts_with_vowel(noun.fr) and noun.gender == "m" and noun.fr != noun.fr_plural
}


def test_french_elides_and_contracts(many):
    joined = ("l'", "d'", "n'", "j'", "qu'", "m'", "t'", "s'", "c'")
    for triple in many:
        words = [word.lower() for word in triple.french.words]
        assert not PLAIN_ELISION.search(triple.french.text), triple.french.text
        for word, after in pairwise(words):
            assert (word, after) not in {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les"), ("si", "il")}
            if word in joined:
                assert starts_with_vowel(after), triple.french.text
            if word in ("beau", "nouveau", "ce", "ma", "ta", "sa"):
                assert not starts_with_vowel(after), triple.french.text
            assert (word, after) not in NOT_BEFORE_VOWELS, triple.french.text


def test_ne_never_comes_without_its_second_half(many):
    for triple in many:
        words = [word.lower() for word in triple.french.words]
        count = words.count("ne") + words.count("n'")
        assert count == words.count("pas") + words.count("jamais"), triple.french.text


def test_chinese_is_written_in_chinese(many):
    allowed = re.compile(r"[\u4e00-\u9fff，。？！]+")
    for triple in many:
        assert allowed.fullmatch(triple.chinese.text), triple.chinese.text
        for wrong in ("的的", "在在", "不没", "了了", "很不", "一一", "，，"):
            assert wrong not in triple.chinese.text, triple.chinese.text


def test_lengths_go_from_two_to_about_fifty(many):
    lengths = Counter(len(triple.english.words) - 1 for triple in many)  # without the final mark
    assert min(lengths) <= 2
    assert 40 <= max(lengths) <= 50
    assert sum(lengths[n] for n in range(4, 16)) > 0.75 * len(many)
    assert sum(lengths[n] for n in range(20, 51)) > 0.02 * len(many)


def bare(text: str) -> str:
    text = text.lower().replace("didn't", "did not")
    return "".join(sign for sign in text if sign.isalnum())


@pytest.mark.slow
def test_the_documents_sentences_are_never_made_at_all():
    names = {bare(text) for text in LEFT_OUT}
    for triple in generate(50_000, seed=3):
        for side in (triple.english, triple.french, triple.chinese):
            assert bare(side.text) not in names


def test_the_documents_sentences_are_left_out(many, monkeypatch):
    names = {bare(text) for text in LEFT_OUT}
    for triple in many:
        assert not {bare(side.text) for side in (triple.english, triple.french, triple.chinese)} & names
    # A sentence that would be made is passed over once it is on the list, however it is written
    import regard.corpus as corpus

    first = next(generate(1, seed=8))
    shout = first.english.text.upper().replace(".", "!!")
    monkeypatch.setattr(corpus, "_LEFT_OUT_KEYS", frozenset([corpus._key(shout)]))
    assert next(generate(1, seed=8)).english.text != first.english.text
    assert {"The cat sits on the mat.", "I love you."} <= set(LEFT_OUT)


def test_the_documents_words_are_all_there(many):
    words = {word.lower() for triple in many for word in triple.english.words}
    for text in LEFT_OUT[:6]:
        assert set(re.findall(r"[a-z']+", text.lower())) <= words


def expanded(text: str) -> str:
    for short, long in [
        ("won't", "will not"),
        ("can't", "cannot"),
        ("n't", " not"),
        ("'m", " am"),
        ("'re", " are"),
        ("'ll", " will"),
    ]:
        text = text.replace(short, long)
    return re.sub(r"\b(he|she|it|there)'s", r"\1 is", text, flags=re.IGNORECASE)


def translations_met_again(triples) -> int:
    """Count repeated sentences, contractions aside, and assert that they have the same translations."""
    known: dict[str, tuple[str, str]] = {}
    met = 0
    for triple in triples:
        key = expanded(triple.english.text)
        value = triple.french.text, triple.chinese.text
        met += key in known
        assert known.setdefault(key, value) == value, key
    return met


def test_the_translation_follows_from_the_english(many):
    assert translations_met_again([*many, *generate(8_000, seed=6), *generate(8_000, seed=9)]) > 500


@pytest.mark.slow
def test_the_translation_follows_from_the_english_in_many_seeds():
    assert (
        translations_met_again(triple for seed in range(20, 26) for triple in generate(60_000, seed=seed))
        > 10_000
    )


def test_the_corpus_has_more_than_a_million_sentences():
    # Draws with repetition: among n draws from a space of size s there are at most about n²/2s repeats.
    maker = StatementMaker(Random(5))
    draws = [realise(maker.statement()).english.text for _ in range(6000)]
    longer = [text for text in draws if len(text.split()) >= 7]
    repeats = len(longer) - len(set(longer))
    assert len(longer) > 2000
    assert len(longer) ** 2 / (2 * (repeats + 3)) > 1_000_000


@pytest.mark.slow
def test_a_million_sentences_can_be_generated():
    assert sum(1 for _ in generate(1_000_000, seed=1)) == 1_000_000


def test_wrong_arguments_are_named():
    with pytest.raises(RegardError, match="split: unknown name 'trian': did you mean 'train'"):
        generate(1, split="trian")
    with pytest.raises(RegardError, match="split: unknown name 'trian': did you mean 'train'"):
        passages(1, split="trian")
    with pytest.raises(ArgumentError, match="count: expected 0 or more sentences, got -1"):
        generate(-1)
    with pytest.raises(ArgumentError, match="language: unknown name 'de'"):
        next(generate(1)).side("de")
    with pytest.raises(ArgumentError, match="language"):
        next(generate(1)).links("en", "it")


def test_the_corpus_imports_nothing_heavy():
    code = "import sys, regard.corpus; print([n for n in ('torch', 'numpy') if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_the_vocabulary_is_as_large_as_promised():
    assert 150 <= len(NOUNS) <= 260
    assert 80 <= len({verb.en for verb in VERBS}) <= len(VERBS) <= 130
    assert 55 <= len(ADJECTIVES) <= 100
