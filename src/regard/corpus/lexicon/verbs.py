"""The verbs of the lexicon.

A line reads ``English forms | French infinitive | Chinese | frame | subjects | objects | flags``.

- The English forms are ``eat ate eaten``, without the participle if it equals the past. ``+`` precedes a particle.
- In French, ``+`` precedes the words after the verb, followed by the preposition of the object (``avoir +besoin de``).
  ``>`` precedes the verb for future and modal uses (``être +assis >se asseoir``).
- In Chinese, ``和~说话`` puts the object before the verb, and ``看见/看不见`` gives a separate negative form.
- The flags are ``state`` (imparfait, no 了, no -ing), ``posture`` (imparfait), ``moment`` (no -ing), ``steady`` (着),
  ``être`` (the auxiliary), ``generic`` (a bare object takes le, la, les), ``bare`` (an object without article, as in
  parler français), ``befalls`` (involuntary, no imperative), ``past`` (no present tense), ``nowhere`` (no place
  adverbial) and ``to`` (the receiver always follows `to`, as in explain it to me).
"""

from __future__ import annotations

from regard.corpus.lexemes import Modal, Verb

__all__ = ["BE", "BY_FRAME", "CALLS", "MODALS", "VERBS", "WEATHER"]

TABLE = """
sleep slept | dormir | 睡觉 | i | person animal
work worked | travailler | 工作 | i | person
run ran run | courir | 跑步 | i | person
swim swam swum | nager | 游泳 | i | person
sing sang sung | chanter | 唱歌 | i | person
dance danced | danser | 跳舞 | i | person
play played | jouer | 玩 | i | person pet
laugh laughed | rire | 笑 | i | person
cry cried | pleurer | 哭 | i | person | | befalls
smile smiled | sourire | 微笑 | i | person
walk walked | marcher | 走路 | i | person
travel traveled | voyager | 旅行 | i | person
fall fell fallen | tomber | 摔倒 | i | person animal | | befalls être moment
arrive arrived | arriver | 到 | i | person vehicle | | befalls être nowhere moment past
leave left | partir | 离开 | i | person vehicle | | être nowhere moment
come came come | venir | 来 | i | person | | être nowhere moment
rest rested | se reposer | 休息 | i | person animal
get got +up | se lever | 起床 | i | person | | nowhere moment
wake woke +up | se réveiller | 醒来 | i | person animal | | befalls nowhere moment
go went gone +out | sortir | 出去 | i | person | | être nowhere moment
come came come +back | revenir | 回来 | i | person | | être nowhere moment
go went gone +home | rentrer +à_la_maison | 回家 | i | person | | être nowhere moment
cook cooked | cuisiner | 做饭 | i | person
jump jumped | sauter | 跳 | i | person animal
shout shouted | crier | 喊叫 | i | person
fly flew flown | voler | 飞 | i | bird flying | | befalls nowhere
stop stopped | se arrêter | 停下来 | i | person vehicle | | befalls moment
sit sat | être +assis >se asseoir | 坐 | p | person pet | | posture
stand stood | être +debout >se tenir_debout | 站 | p | person tame | | posture
lie lay lain | être +allongé >se allonger | 躺 | p | person animal | | posture
live lived | habiter | 住 | p | person | | state
stay stayed | rester | 待 | p | person animal | | être
hide hid hidden | se cacher | 躲 | p | person animal
go went gone | aller à | 去 | g | person | | être
return returned | retourner à | 回到 | g | person | | être moment
run ran run | courir à | 跑到 | g | person | | moment
eat ate eaten | manger | 吃 | t | person animal | food
drink drank drunk | boire | 喝 | t | person | drink
buy bought | acheter | 买 | t | person | goods vehicle food drink
sell sold | vendre | 卖 | t | adult | goods vehicle food
see saw seen | voir | 看见/看不见 | t | person animal | person animal goods vehicle building plant sky | befalls moment
watch watched | regarder | 看 | t | person | watched
look looked +at | regarder | 看 | t | person | person animal goods plant sky vehicle | nowhere
read read | lire | 读 | t | person | readable
write wrote written | écrire | 写 | t | person | written
open opened | ouvrir | 打开 | t | person | opening unpack
close closed | fermer | 关上 | t | person | opening
love loved | aimer | 爱 | t | person | person animal music | state generic
like liked | aimer | 喜欢 | t | person | person animal food drink goods building sky | state generic
hate hated | détester | 讨厌 | t | person | animal food drink vehicle | state generic
prefer preferred | préférer | 更喜欢 | t | person | food drink goods animal | state generic
want wanted | vouloir | 想要 | t | person | food drink goods vehicle | state
need needed | avoir +besoin de | 需要 | t | person | goods vehicle drink person | state
have had | avoir | 有 | t | person | goods vehicle food pet kin | state
know knew known | connaître | 认识 | t | person | person | state
know knew known | connaître | 知道 | t | person | known told sung | state
help helped | aider | 帮助 | t | person | person animal
call called | appeler | 给~打电话 | t | person | person
meet met | rencontrer | 遇见 | t | person | person | befalls moment
thank thanked | remercier | 感谢 | t | person | person
kiss kissed | embrasser | 吻 | t | person | person
invite invited | inviter | 邀请 | t | person | person
find found | trouver | 找到/找不到 | t | person | goods animal | befalls past moment
look looked +for | chercher | 寻找 | t | person animal | goods animal person food
lose lost | perdre | 弄丢 | t | person | goods pet | befalls past moment
forget forgot forgotten | oublier | 忘记 | t | person | goods person thought | befalls past moment
remember remembered | se souvenir de | 记得 | t | person | person thought told building | state befalls
take took taken | prendre | 拿 | t | person | carry fruit
bring brought | apporter | 带来 | t | person | carry food drink toy
wear wore worn | porter | 穿 | t | person | clothes | steady
wear wore worn | porter | 戴 | t | person | headwear | steady
wash washed | laver | 洗 | t | person | clothes dish fixed fruit
clean cleaned | nettoyer | 打扫 | t | person | room owned
cook cooked | cuisiner | 煮 | t | person | raw
prepare prepared | préparer | 准备 | t | person | made raw
break broke broken | casser | 打破 | t | person pet | breakable | befalls past moment
repair repaired | réparer | 修理 | t | adult | device fixed
use used | utiliser | 使用 | t | person | device dish
draw drew drawn | dessiner | 画 | t | person | animal plant building
paint painted | peindre | 粉刷 | t | adult | paintable
choose chose chosen | choisir | 选择 | t | person | goods food
learn learned | apprendre | 学 | t | person | language sung | generic
study studied | étudier | 学习 | t | person | language | generic
teach taught | enseigner | 教 | t | adult | language | generic
understand understood | comprendre | 明白 | t | person | thought known | state generic
speak spoke spoken | parler | 说 | t | person | language | bare
listen listened +to | écouter | 听 | t | person | heard | generic
hear heard | entendre | 听见/听不见 | t | person | person animal heard | befalls moment
wait waited +for | attendre | 等 | t | person | person driven | nowhere
answer answered | répondre à | 回答 | t | person | answered
feed fed | nourrir | 喂 | t | person | pet tame
follow followed | suivre | 跟随 | t | person pet | person animal | nowhere
chase chased | poursuivre | 追 | t | pet wild | animal
protect protected | protéger | 保护 | t | person | person animal
save saved | sauver | 救 | t | person | person pet
touch touched | toucher | 摸 | t | person | animal goods
push pushed | pousser | 推 | t | person | furniture opening fixed
pull pulled | tirer | 拉 | t | person | furniture fixed
throw threw thrown | lancer | 扔 | t | person | toy
catch caught | attraper | 抓住 | t | person | pet tame toy | befalls moment
build built | construire | 建造 | t | adult | built | nowhere
drive drove driven | conduire | 开 | t | adult | driven
play played | jouer de | 弹 | t | person | music
sing sang sung | chanter | 唱 | t | person | sung
visit visited | visiter | 参观 | t | person | visited | nowhere
visit visited | rendre +visite à | 看望 | t | person | person
cross crossed | traverser | 穿过 | t | person animal | crossed | nowhere
leave left | quitter | 离开 | t | person | building | nowhere
receive received | recevoir | 收到 | t | person | sent | befalls past moment
talk talked +to | parler à | 和~说话 | t | person | person
play played +with | jouer avec | 和~玩 | t | person pet | young pet
dance danced +with | danser avec | 和~跳舞 | t | person | person
work worked +with | travailler avec | 和~一起工作 | t | adult | adult
travel traveled +with | voyager avec | 和~一起旅行 | t | person | person
live lived +with | habiter avec | 和~一起住 | t | person | person pet | state
believe believed | croire | 相信 | t | person | person told | state
give gave given | donner | 给 | d | person | goods food drink
send sent | envoyer | 寄给 | d | person | sent
sell sold | vendre | 卖给 | d | adult | goods vehicle
lend lent | prêter | 借给 | d | person | goods fixed
show showed shown | montrer | 给~看 | d | person | goods building pet
tell told | raconter | 给~讲 | d | person | told
explain explained | expliquer | 向~解释 | d | person | thought | to
write wrote written | écrire | 给~写 | d | person | mail
think thought | penser | 认为 | c | person | | state
know knew known | savoir | 知道 | c | person | | state
say said | dire | 说 | c | person
believe believed | croire | 相信 | c | person | | state
hope hoped | espérer | 希望 | c | person | | state
"""


def _french(cell: str) -> tuple[str, bool, str, str, str]:
    """Parse a French cell to infinitive, reflexive, words after the verb, preposition and future infinitive."""
    cell, _, moving = cell.partition(">")
    parts = cell.split()
    reflexive = parts[0] == "se"
    parts = parts[reflexive:]
    tail = "".join(part[1:] for part in parts[1:] if part.startswith("+")).replace("_", " ")
    link = "".join(part for part in parts[1:] if not part.startswith("+"))
    return parts[0], reflexive, tail, link, moving.replace("_", " ")


def _verb(line: str) -> Verb:
    cells = [cell.strip() for cell in line.split("|")] + ["", ""]
    forms, _, particle = cells[0].partition("+")
    en = forms.split()
    fr, reflexive, tail, fr_link, moving = _french(cells[1])
    zh, _, cannot = cells[2].partition("/")
    zh_link, has_link, zh_verb = zh.partition("~")
    return Verb(
        en=en[0],
        en_past=en[1],
        en_participle=en[2] if len(en) > 2 else en[1],
        particle=particle,
        fr=fr,
        reflexive=reflexive,
        fr_tail=tail,
        fr_link=fr_link,
        fr_moving=moving,
        zh=zh_verb if has_link else zh,
        zh_link=zh_link if has_link else "",
        zh_cannot=cannot,
        frame=cells[3],
        subjects=tuple(cells[4].split()),
        objects=tuple(cells[5].split()),
        flags=frozenset(cells[6].split()),
    )


VERBS = tuple(_verb(line) for line in TABLE.strip().split("\n"))
BY_FRAME = {frame: tuple(verb for verb in VERBS if verb.frame == frame) for frame in "iptdgc"}
CALLS = tuple(verb for verb in VERBS if verb.frame in "itdg" and not verb.flags & {"befalls", "state"})
BE = _verb("be was been | être | 是 | be | | | state")
WEATHER = (
    _verb("rain rained | pleuvoir | 下雨 | w |"),
    _verb("snow snowed | neiger | 下雪 | w |"),
)

MODALS = (
    Modal("can", "could", False, "pouvoir", "能", ""),
    Modal("must", "", False, "devoir", "必须", "不可以"),
    Modal("should", "", False, "devoir", "应该", ""),
    Modal("want", "wanted", True, "vouloir", "想", ""),
    Modal("like", "liked", True, "aimer", "喜欢", ""),
    Modal("going", "", True, "aller", "打算", ""),
)
