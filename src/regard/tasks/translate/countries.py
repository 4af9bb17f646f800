"""Names of countries that a model left in English in a Chinese translation."""

from __future__ import annotations

import re

from regard.text.traced import TracedText

__all__ = ["COUNTRIES", "left_countries", "with_chinese_countries"]

_TEXT = """
Afghanistan 阿富汗|Albania 阿尔巴尼亚|Algeria 阿尔及利亚|Angola 安哥拉|Argentina 阿根廷|Armenia 亚美尼亚
Australia 澳大利亚|Austria 奥地利|Azerbaijan 阿塞拜疆|Bangladesh 孟加拉国|Belarus 白俄罗斯|Belgium 比利时
Bolivia 玻利维亚|Botswana 博茨瓦纳|Brazil 巴西|Bulgaria 保加利亚|Cambodia 柬埔寨|Cameroon 喀麦隆
Canada 加拿大|Chile 智利|China 中国|Colombia 哥伦比亚|Costa Rica 哥斯达黎加|Croatia 克罗地亚|Cuba 古巴
Cyprus 塞浦路斯|Denmark 丹麦|Ecuador 厄瓜多尔|Egypt 埃及|England 英格兰|Estonia 爱沙尼亚
Ethiopia 埃塞俄比亚|Finland 芬兰|France 法国|Germany 德国|Ghana 加纳|Greece 希腊|Greenland 格陵兰
Guatemala 危地马拉|Haiti 海地|Honduras 洪都拉斯|Hungary 匈牙利|Iceland 冰岛|India 印度
Indonesia 印度尼西亚|Iran 伊朗|Iraq 伊拉克|Ireland 爱尔兰|Israel 以色列|Italy 意大利|Jamaica 牙买加
Japan 日本|Kazakhstan 哈萨克斯坦|Kenya 肯尼亚|Korea 韩国|Kuwait 科威特|Laos 老挝|Latvia 拉脱维亚
Lebanon 黎巴嫩|Libya 利比亚|Lithuania 立陶宛|Luxembourg 卢森堡|Madagascar 马达加斯加|Malaysia 马来西亚
Malta 马耳他|Mexico 墨西哥|Mongolia 蒙古|Morocco 摩洛哥|Mozambique 莫桑比克|Myanmar 缅甸|Namibia 纳米比亚
Nepal 尼泊尔|Netherlands 荷兰|New Zealand 新西兰|Nicaragua 尼加拉瓜|Nigeria 尼日利亚|North Korea 朝鲜
Norway 挪威|Pakistan 巴基斯坦|Panama 巴拿马|Paraguay 巴拉圭|Peru 秘鲁|Philippines 菲律宾|Poland 波兰
Portugal 葡萄牙|Qatar 卡塔尔|Romania 罗马尼亚|Russia 俄罗斯|Rwanda 卢旺达|Saudi Arabia 沙特阿拉伯
Scotland 苏格兰|Senegal 塞内加尔|Serbia 塞尔维亚|Singapore 新加坡|Slovakia 斯洛伐克|Slovenia 斯洛文尼亚
Somalia 索马里|South Africa 南非|South Korea 韩国|Spain 西班牙|Sri Lanka 斯里兰卡|Sudan 苏丹|Sweden 瑞典
Switzerland 瑞士|Syria 叙利亚|Taiwan 台湾|Tanzania 坦桑尼亚|Thailand 泰国|Tunisia 突尼斯|Turkey 土耳其
Uganda 乌干达|Ukraine 乌克兰|United Kingdom 英国|United States 美国|Uruguay 乌拉圭
Uzbekistan 乌兹别克斯坦|Venezuela 委内瑞拉|Vietnam 越南|Wales 威尔士|Zambia 赞比亚|Zimbabwe 津巴布韦
"""
_ROWS = [row.rpartition(" ") for line in _TEXT.strip().split("\n") for row in line.split("|")]
COUNTRIES: dict[str, str] = {english: chinese for english, _, chinese in _ROWS}
_NAMES = "|".join(sorted(COUNTRIES, key=len, reverse=True))
# A country beside another English word is a part of a name, such as "Air France".
_COUNTRY = re.compile(
    rf"(?<![A-Za-zÀ-ɏ'’-])(?<![A-Za-zÀ-ɏ] )(?:the )?(?P<country>{_NAMES})(?!['’-]?[A-Za-zÀ-ɏ]| [A-Za-zÀ-ɏ])"
)


def left_countries(text: str) -> list[str]:
    """Return the countries that stand in English in a Chinese text.

    >>> left_countries("我从Spain坐Air France去中国。")
    ['Spain']
    """
    return [match["country"] for match in _COUNTRY.finditer(text)]


def with_chinese_countries(text: TracedText) -> TracedText:
    """Return a Chinese text with the Chinese names of the countries that stand in English in it.

    >>> with_chinese_countries(TracedText("我们去了Spain。")).text
    '我们去了西班牙。'
    """
    return text.replaced(_COUNTRY, lambda match: COUNTRIES[match["country"]], whole=True)
