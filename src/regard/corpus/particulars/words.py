"""Words of the patterns that are translated, such as months, days, relatives and things."""

from __future__ import annotations

__all__ = ["SLOTS_OF_WORDS", "day_time"]

Words = tuple[str, str, str]  # English, French, Chinese


def _table(text: str) -> tuple[Words, ...]:
    rows = [tuple(part.strip() for part in row.split("|")) for row in text.strip().split("\n")]
    return tuple((english, french, chinese) for english, french, chinese in rows)


_MONTHS = _table("""
January|janvier|1月
February|février|2月
March|mars|3月
April|avril|4月
May|mai|5月
June|juin|6月
July|juillet|7月
August|août|8月
September|septembre|9月
October|octobre|10月
November|novembre|11月
December|décembre|12月
""")
_WEEKDAYS = _table("""
Monday|lundi|星期一
Tuesday|mardi|星期二
Wednesday|mercredi|星期三
Thursday|jeudi|星期四
Friday|vendredi|星期五
Saturday|samedi|星期六
Sunday|dimanche|星期天
""")
_FEMALE_RELATIVES = _table("""
mother|mère|母亲
sister|sœur|妹妹
daughter|fille|女儿
wife|femme|妻子
aunt|tante|阿姨
grandmother|grand-mère|奶奶
cousin|cousine|表妹
niece|nièce|侄女
""")
_MALE_RELATIVES = _table("""
father|père|父亲
brother|frère|弟弟
son|fils|儿子
husband|mari|丈夫
uncle|oncle|叔叔
grandfather|grand-père|爷爷
nephew|neveu|侄子
""")
_FEMALE_JOBS = _table("""
doctor|médecin|医生
teacher|enseignante|老师
nurse|infirmière|护士
lawyer|avocate|律师
singer|chanteuse|歌手
dentist|dentiste|牙医
journalist|journaliste|记者
writer|écrivaine|作家
student|étudiante|学生
waitress|serveuse|服务员
""")
_MALE_JOBS = _table("""
doctor|médecin|医生
teacher|enseignant|老师
nurse|infirmier|护士
lawyer|avocat|律师
singer|chanteur|歌手
dentist|dentiste|牙医
journalist|journaliste|记者
writer|écrivain|作家
student|étudiant|学生
cook|cuisinier|厨师
driver|chauffeur|司机
farmer|agriculteur|农民
""")
_THINGS = _table("""
chairs|chaises|把椅子
tables|tables|张桌子
books|livres|本书
tickets|billets|张票
bottles|bouteilles|个瓶子
apples|pommes|个苹果
eggs|œufs|个鸡蛋
boxes|boîtes|个箱子
cars|voitures|辆汽车
bicycles|vélos|辆自行车
computers|ordinateurs|台电脑
phones|téléphones|部手机
cups|tasses|个杯子
plates|assiettes|个盘子
pens|stylos|支笔
letters|lettres|封信
stamps|timbres|张邮票
flowers|fleurs|朵花
trees|arbres|棵树
lamps|lampes|盏灯
shirts|chemises|件衬衫
umbrellas|parapluies|把雨伞
keys|clés|把钥匙
newspapers|journaux|份报纸
""")

SLOTS_OF_WORDS: dict[str, tuple[Words, ...]] = {
    "month": _MONTHS,
    "weekday": _WEEKDAYS,
    "kin_f": _FEMALE_RELATIVES,
    "kin_m": _MALE_RELATIVES,
    "job_f": _FEMALE_JOBS,
    "job_m": _MALE_JOBS,
    "item": _THINGS,
    "am": (),
    "pm": (),
}


def day_time(kind: str, clock: str) -> Words:
    """Return "a.m." or "p.m." in the three languages for a time such as "3:45".

    >>> day_time("pm", "3:45"), day_time("pm", "9:00")[1]
    (('p.m.', "de l'après-midi", '下午'), 'du soir')
    """
    hour = int(clock.split(":")[0]) % 12
    if kind == "am":
        return ("a.m.", "du matin", "凌晨" if hour < 5 else "上午")
    return ("p.m.", "du soir", "晚上") if hour > 5 else ("p.m.", "de l'après-midi", "下午")
