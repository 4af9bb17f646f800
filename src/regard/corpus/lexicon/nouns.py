"""The nouns of the lexicon.

A line reads ``English[/plural] | French[/plural] gender | Chinese measure | classes``. The classes select the verbs and
prepositions of a noun, for example ``food`` is eaten and ``surface`` is sat on. Nouns of the class ``mass`` have no
plural, and those of the class ``one`` no indefinite article.
"""

from __future__ import annotations

from regard.corpus.lexemes import Noun, english_plural, french_plural

__all__ = ["BY_CLASS", "NOUNS"]

PEOPLE = """
man/men | homme m | 男人 个 | adult
woman/women | femme f | 女人 个 | adult
boy | garçon m | 男孩 个 | young
girl | fille f | 女孩 个 | young
child/children | enfant m | 孩子 个 | young hired
friend | ami m | 朋友 个 | adult kin met
neighbor | voisin m | 邻居 个 | adult kin met
teacher | professeur m | 老师 位 | adult job hired role
student | étudiant m | 学生 个 | adult job hired role
doctor | médecin m | 医生 位 | adult job hired role
nurse | infirmière f | 护士 位 | adult job hired role
farmer | agriculteur m | 农民 个 | adult job role
king | roi m | 国王 位 | adult single
queen | reine f | 王后 位 | adult single
mother | mère f | 妈妈 位 | adult kin single
father | père m | 爸爸 位 | adult kin single
brother | frère m | 哥哥 个 | young kin
sister | sœur f | 姐姐 个 | young kin
uncle | oncle m | 叔叔 位 | adult kin
aunt | tante f | 阿姨 位 | adult kin
grandmother | grand-mère/grands-mères f | 奶奶 位 | adult kin single
grandfather | grand-père/grands-pères m | 爷爷 位 | adult kin single
son | fils m | 儿子 个 | young kin
daughter | fille f | 女儿 个 | young kin
wife/wives | femme f | 妻子 位 | adult spouse single
husband | mari m | 丈夫 位 | adult spouse single
policeman/policemen | policier m | 警察 位 | adult job
baker | boulanger m | 面包师 位 | adult job role
artist | artiste m | 艺术家 位 | adult job role
singer | chanteur m | 歌手 位 | adult job role
writer | écrivain m | 作家 位 | adult job role
driver | chauffeur m | 司机 位 | adult job hired
lawyer | avocat m | 律师 位 | adult job hired role
engineer | ingénieur m | 工程师 位 | adult job role
soldier | soldat m | 士兵 个 | adult job
tourist | touriste m | 游客 个 | adult
guest | invité m | 客人 位 | adult
waiter | serveur m | 服务员 个 | adult job
actor | acteur m | 演员 个 | adult job role
dentist | dentiste m | 牙医 位 | adult job hired role
"""

NAMES = """
Tom | Tom m | 汤姆
Mary | Marie f | 玛丽
Paul | Paul m | 保罗
Anna | Anna f | 安娜
Peter | Pierre m | 彼得
Alice | Alice f | 爱丽丝
Jack | Jack m | 杰克
Emma | Emma f | 艾玛
David | David m | 大卫
Sarah | Sarah f | 莎拉
Mike | Mike m | 迈克
Lucy | Lucie f | 露西
"""

ANIMALS = """
cat | chat m | 猫 只 | pet
dog | chien m | 狗 只 | pet
bird | oiseau m | 鸟 只 | pet bird
horse | cheval m | 马 匹 | tame
cow | vache f | 奶牛 头 | tame
pig | cochon m | 猪 头 | tame
mouse/mice | souris f | 老鼠 只 | wild
rabbit | lapin m | 兔子 只 | pet
duck | canard m | 鸭子 只 | tame bird
hen | poule f | 母鸡 只 | tame
lion | lion m | 狮子 头 | wild
tiger | tigre m | 老虎 只 | wild
bear | ours m | 熊 只 | wild
monkey | singe m | 猴子 只 | wild
elephant | éléphant m | 象 头 | wild
wolf/wolves | loup m | 狼 只 | wild
fox | renard m | 狐狸 只 | wild
frog | grenouille f | 青蛙 只 | wild
snake | serpent m | 蛇 条 | wild
goat | chèvre f | 山羊 只 | tame
donkey | âne m | 驴 头 | tame
animal | animal m | 动物 只 | pet
"""

FOOD = """
apple | pomme f | 苹果 个 | fruit
banana | banane f | 香蕉 根 | fruit
orange | orange f | 橙子 个 | fruit
pear | poire f | 梨 个 | fruit
peach | pêche f | 桃子 个 | fruit
strawberry | fraise f | 草莓 个 | fruit
lemon | citron m | 柠檬 个 | fruit
tomato/tomatoes | tomate f | 西红柿 个 | raw
carrot | carotte f | 胡萝卜 根 | raw
onion | oignon m | 洋葱 个 | raw
egg | œuf m | 鸡蛋 个 | raw
cake | gâteau m | 蛋糕 块 | made
sandwich | sandwich m | 三明治 个 | made
biscuit | biscuit m | 饼干 块 | made
pizza | pizza f | 披萨 个 | made
bread | pain m | 面包 块 | made mass
cheese | fromage m | 奶酪 块 | made mass
meat | viande f | 肉 块 | raw mass
rice | riz m | 米饭 碗 | raw mass
fish | poisson m | 鱼 条 | raw mass
chicken | poulet m | 鸡肉 块 | raw mass
salad | salade f | 沙拉 份 | made mass
chocolate | chocolat m | 巧克力 块 | made mass
ham | jambon m | 火腿 块 | made mass
"""

DRINKS = """
water | eau f | 水 杯 | mass
milk | lait m | 牛奶 杯 | mass
tea | thé m | 茶 杯 | mass
coffee | café m | 咖啡 杯 | mass
juice | jus m | 果汁 杯 | mass
wine | vin m | 葡萄酒 杯 | mass
beer | bière f | 啤酒 杯 | mass
"""

THINGS = """
table | table f | 桌子 张 | furniture surface under near
chair | chaise f | 椅子 把 | furniture surface under near
bed | lit m | 床 张 | furniture surface under near
sofa | canapé m | 沙发 张 | furniture surface near
desk | bureau m | 书桌 张 | furniture surface under near
mat | tapis m | 垫子 块 | surface goods
door | porte f | 门 扇 | opening near part paintable
window | fenêtre f | 窗户 扇 | opening near part breakable
wall | mur m | 墙 面 | near behind part paintable
roof | toit m | 屋顶 个 | surface part paintable
box | boîte f | 盒子 个 | inner opening goods carry hollow
bag | sac m | 包 个 | inner unpack goods carry hollow
basket | panier m | 篮子 个 | inner goods carry hollow
bottle | bouteille f | 瓶子 个 | unpack goods carry breakable hollow
cup | tasse f | 杯子 个 | goods dish breakable
plate | assiette f | 盘子 个 | goods dish breakable
knife/knives | couteau m | 刀 把 | goods dish
spoon | cuillère f | 勺子 把 | goods dish
fork | fourchette f | 叉子 把 | goods dish
lamp | lampe f | 灯 盏 | goods device near
clock | horloge f | 钟 个 | goods device
mirror | miroir m | 镜子 面 | goods breakable
telephone | téléphone m | 电话 部 | goods device carry
computer | ordinateur m | 电脑 台 | goods device carry
television | télévision f | 电视 台 | goods device watched
radio | radio f | 收音机 台 | goods device heard
book | livre m | 书 本 | goods readable written unpack carry
newspaper | journal m | 报纸 份 | goods readable
letter | lettre f | 信 封 | readable written unpack sent mail
magazine | magazine m | 杂志 本 | goods readable
dictionary | dictionnaire m | 词典 本 | goods readable
poem | poème m | 诗 首 | readable written
story | histoire f | 故事 个 | readable written told
pen | stylo m | 钢笔 支 | goods carry
pencil | crayon m | 铅笔 支 | goods carry
key | clé f | 钥匙 把 | goods carry
ball | balle f | 球 个 | goods toy
toy | jouet m | 玩具 个 | goods toy
doll | poupée f | 洋娃娃 个 | goods toy
umbrella | parapluie m | 雨伞 把 | goods carry unpack
ring | bague f | 戒指 枚 | goods carry
gift | cadeau m | 礼物 份 | goods carry unpack sent
ticket | billet m | 票 张 | goods carry
photo | photo f | 照片 张 | goods watched sent
painting | tableau m | 画 幅 | goods watched
map | carte f | 地图 张 | goods carry
song | chanson f | 歌 首 | heard sung
movie | film m | 电影 部 | watched
flower | fleur f | 花 朵 | goods plant sent
tree | arbre m | 树 棵 | plant under near behind
candle | bougie f | 蜡烛 根 | goods
blanket | couverture f | 毯子 条 | goods surface
pillow | oreiller m | 枕头 个 | goods
piano | piano m | 钢琴 架 | music goods
guitar | guitare f | 吉他 把 | music goods
hat | chapeau m | 帽子 顶 | goods headwear
scarf/scarves | écharpe f | 围巾 条 | goods headwear
glove | gant m | 手套 只 | goods headwear
shirt | chemise f | 衬衫 件 | goods clothes
dress | robe f | 连衣裙 条 | goods clothes
coat | manteau m | 外套 件 | goods clothes
skirt | jupe f | 裙子 条 | goods clothes
sweater | pull m | 毛衣 件 | goods clothes
jacket | veste f | 夹克 件 | goods clothes
car | voiture f | 汽车 辆 | vehicle driven inner near behind fixed
bus | bus m | 公共汽车 辆 | vehicle driven inner
train | train m | 火车 列 | vehicle inner
bicycle | vélo m | 自行车 辆 | vehicle near fixed
boat | bateau m | 船 艘 | vehicle built
plane | avion m | 飞机 架 | vehicle flying
truck | camion m | 卡车 辆 | vehicle driven near behind fixed
taxi | taxi m | 出租车 辆 | vehicle driven
question | question f | 问题 个 | thought answered
answer | réponse f | 答案 个 | thought
problem | problème m | 难题 个 | thought
idea | idée f | 主意 个 | thought
truth | vérité f | 真相 个 | known one mass
French | français m | 法语 门 | language mass one
English | anglais m | 英语 门 | language mass one
Chinese | chinois m | 汉语 门 | language mass one
music | musique f | 音乐 首 | heard mass
moon | lune f | 月亮 个 | sky one mass
sun | soleil m | 太阳 个 | sky one mass
sky | ciel m | 天空 片 | sky one mass
star | étoile f | 星星 颗 | sky
"""

PLACES = """
house | maison f | 房子 座 | building owned inner near behind built paintable
garden | jardin m | 花园 个 | inner owned goal
kitchen | cuisine f | 厨房 间 | room inner
room | chambre f | 房间 间 | room inner owned
office | bureau m | 办公室 间 | room inner goal owned
school | école f | 学校 所 | building at goal near behind
park | parc m | 公园 个 | inner goal near crossed
street | rue f | 街 条 | crossed in
city | ville f | 城市 座 | inner visited big
village | village m | 村庄 个 | inner goal visited near big
hospital | hôpital m | 医院 家 | building at goal near behind
station | gare f | 车站 个 | building at goal near behind
restaurant | restaurant m | 餐厅 家 | building at goal near owned
hotel | hôtel m | 酒店 家 | building at goal near
museum | musée m | 博物馆 座 | building at goal near visited
library | bibliothèque f | 图书馆 座 | building at goal near visited
bank | banque f | 银行 家 | building at goal near
church | église f | 教堂 座 | building goal near behind visited
market | marché m | 市场 个 | at goal near
store | magasin m | 商店 家 | building inner goal near owned
factory | usine f | 工厂 家 | building goal near inner
farm | ferme f | 农场 个 | goal near visited owned
castle | château m | 城堡 座 | building inner goal near visited built owned
bridge | pont m | 桥 座 | surface under near crossed built
river | rivière f | 河 条 | near crossed wet
lake | lac m | 湖 个 | near wet
forest | forêt f | 森林 片 | inner near crossed big
beach | plage f | 海滩 片 | at goal near
island | île f | 岛 座 | visited big
airport | aéroport m | 机场 个 | building at goal near
cinema | cinéma m | 电影院 家 | building at goal near
university | université f | 大学 所 | building at goal near
bakery | boulangerie f | 面包店 家 | building at goal near
"""


# The masculine and feminine French form of professions whose noun above has only one gender.
ROLES = {
    "student": ("étudiant", "étudiante"),
    "nurse": ("infirmier", "infirmière"),
    "farmer": ("agriculteur", "agricultrice"),
    "baker": ("boulanger", "boulangère"),
    "singer": ("chanteur", "chanteuse"),
    "lawyer": ("avocat", "avocate"),
    "actor": ("acteur", "actrice"),
}


def _noun(line: str, extra: str) -> Noun:
    cells = [cell.strip() for cell in line.split("|")]
    classes = cells[3] if len(cells) > 3 else ""
    en, _, en_plural = cells[0].partition("/")
    fr, gender = cells[1].rsplit(" ", 1)
    fr, _, fr_plural = fr.partition("/")
    zh, _, measure = cells[2].partition(" ")
    return Noun(
        en=en,
        en_plural=en_plural or english_plural(en),
        fr=fr,
        fr_plural=fr_plural or french_plural(fr),
        gender=gender,
        zh=zh,
        measure=measure,
        classes=frozenset([*classes.split(), *extra.split()]),
        name="name" in extra,
        roles=ROLES.get(en, (fr, fr)),
        inside="上" if en == "street" else "里",
    )


_TABLES = (
    (PEOPLE, "person"),
    (NAMES, "person adult name"),
    (ANIMALS, "animal"),
    (FOOD, "food"),
    (DRINKS, "drink"),
    (THINGS, "thing"),
    (PLACES, "place"),
)

NOUNS = {
    noun.en: noun for table, extra in _TABLES for noun in (_noun(x, extra) for x in table.strip().split("\n"))
}

BY_CLASS: dict[str, tuple[Noun, ...]] = {
    name: tuple(noun for noun in NOUNS.values() if name in noun.classes)
    for name in sorted(set().union(*(noun.classes for noun in NOUNS.values())))
}
