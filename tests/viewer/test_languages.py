"""Tests of the viewer's texts in English and Chinese, and of the choice between them."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.errors import UnknownNameError
from regard.viewer.articles import View, article
from regard.viewer.page import html, in_language
from support.browser import Watched, put_widget, saved, served, texts_of
from support.viewer_records import READ, STATIC, causal_records, pictured, run_javascript

ENTRY = re.compile(r'^  (\w+): "(.*)",$', re.MULTILINE)
CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Signs and terms that are the same in both languages.
SAME = {"stepSoftmax"}
TABLES = ("english", "chinese")


def texts(table: str) -> dict[str, str]:
    """Return the texts of a table by their names."""
    source = (STATIC / f"{table}.js").read_text(encoding="utf-8")
    found = ENTRY.findall(source.split("export const ")[1])
    assert len(dict(found)) == len(found)
    # Every line of the table is an entry, a comment or empty.
    rest = [line for line in ENTRY.sub("", source.split("export const ")[1]).splitlines()[1:] if line.strip()]
    assert [line for line in rest if not line.strip().startswith("//")] == ["};"]
    return dict(found)


def values_in(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def scripts() -> dict[str, str]:
    """Return the scripts that show texts, without comments."""
    found = {path.stem: path.read_text(encoding="utf-8") for path in sorted(STATIC.glob("*.js"))}
    return {
        name: re.sub(r"/\*(?s:.*?)\*/|(?<=[ ;])// .*$", "", source, flags=re.MULTILINE)
        for name, source in found.items()
        if name not in (*TABLES, "language", "types")
    }


def calls(source: str) -> list[tuple[str, str]]:
    """Return the first argument and all arguments of each call of ``phrase``.

    >>> calls('x(phrase("two", { n: f(1) }), phrase(name))')
    [('"two"', '"two", { n: f(1) }'), ('name', 'name')]
    """
    found = []
    for match in re.finditer(r"\bphrase\(", source):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(source[end], 0)
            end += 1
        arguments = source[match.end() : end - 1]
        found.append((arguments.split(",")[0], arguments))
    return found


def test_both_languages_have_the_same_texts_with_the_same_values():
    english, chinese = map(texts, TABLES)
    assert list(english) == list(chinese)
    assert [name for name in english if values_in(english[name]) != values_in(chinese[name])] == []


def test_the_chinese_texts_are_chinese_and_the_english_ones_are_not():
    english, chinese = map(texts, TABLES)
    assert [name for name, text in english.items() if CHINESE.search(text)] == []
    plain = {
        name
        for name, text in chinese.items()
        if re.search(r"\w", re.sub(r"\{\w+\}|Softmax", "", text)) is None
    }
    assert {name for name, text in chinese.items() if not CHINESE.search(text)} == plain
    assert {name for name in plain if re.search(r"[A-Za-z]", re.sub(r"\{\w+\}", "", chinese[name]))} == SAME


def test_every_text_is_used_and_gets_its_values():
    english = texts("english")
    used = set()
    for script, source in scripts().items():
        for name, arguments in calls(source):
            assert re.fullmatch(r'"\w+"', name), f"{script}.js: phrase({arguments}) has no fixed name"
            name = name.strip('"')
            missing = [
                value for value in values_in(english[name]) if not re.search(rf"\b{value}\b", arguments)
            ]
            assert missing == [], f"{script}.js: phrase({arguments})"
            used.add(name)
    assert used == set(english)


def test_no_sentence_stands_outside_the_tables():
    sentence = re.compile(r"[\"`][^\"`\n]*[A-Za-z]{2,} [a-z]{2,} [a-z]+[^\"`\n]*[\"`]")
    for script, source in scripts().items():
        # Errors of incomplete data are for developers.
        shown = re.sub(r"throw new Error\(\"[^\"]*\"\)", "", source)
        assert sentence.findall(shown) == [], script
    assert sentence.findall('p.text("Point at a token.")')


def test_there_is_no_space_between_chinese_characters_of_a_text_and_its_value():
    source = READ + (
        'import { languageCode, phrase, useLanguage } from "STATIC/language.js";'
        "console.log(JSON.stringify(given.map(([code, name, values]) => {"
        "useLanguage(code); return [languageCode(), phrase(name, values)]; })));"
    )
    cases = [
        ["zh-CN", "hideTokens", {"tokens": "第一个词元"}],
        ["zh", "hideTokens", {"tokens": "[CLS]"}],
        ["zh", "weightsOf", {"query": "“{n} 猫”"}],
        ["en", "hideTokens", {"tokens": "第一个词元"}],
        ["fr", "headNumber", {"n": 3}],
        [None, "headNumber", {"n": 3}],
    ]
    assert run_javascript(source, cases) == [
        ["zh-CN", "隐去第一个词元"],
        ["zh-CN", "隐去 [CLS]"],
        ["zh-CN", "“{n} 猫” 的权重"],
        ["en", "Hide 第一个词元"],
        ["en", "head 3"],
        ["en", "head 3"],
    ]


# ---- pages


def test_a_page_is_english_unless_it_is_asked_for_in_chinese():
    for page in (html(causal_records()), html(causal_records(), language="en")):
        assert page.startswith('<!doctype html>\n<html lang="en" ')
        assert "<noscript>This page needs JavaScript" in page
        assert "<title>Attention · Regard</title>" in page
    page = html(causal_records(), language="zh")
    assert page.startswith('<!doctype html>\n<html lang="zh-CN" ')
    assert "<noscript>本页需要 JavaScript" in page
    assert "<title>注意力 · Regard</title>" in page
    assert "<title>Words · Regard</title>" in html(causal_records(), title="Words", language="zh")


def test_a_language_that_the_viewer_does_not_have_is_an_error(tmp_path):
    with pytest.raises(UnknownNameError, match=r"language: .*'fr'.* en, zh"):
        html(causal_records(), language="fr")
    with pytest.raises(UnknownNameError, match="language"):
        regard.Recording(causal_records()).save_html(tmp_path / "x.html", language="fr")
    with pytest.raises(UnknownNameError, match="language"):
        regard.viewer.serve(causal_records(), language="fr")
    assert list(tmp_path.iterdir()) == []


def test_an_english_page_is_turned_into_a_chinese_one():
    page = html(causal_records(), title="Words")
    assert in_language(page, "zh") == html(causal_records(), title="Words", language="zh")
    assert in_language(page, "en") == page
    assert in_language(page, "en", title="Others") == page
    titled = html(causal_records(), title="词 <1>", language="zh")
    assert in_language(html(causal_records()), "zh", title="词 <1>") == titled
    with pytest.raises(regard.errors.ArgumentError, match="page"):
        in_language("<p>", "zh")


# ---- in a browser


def tabs(page) -> list[str]:
    return page.locator("[role=tab]").all_inner_texts()


# Names of keys, files and functions, which are the same in both languages.
NAMES = {"Regard", "PNG", "SVG", "Enter", "Shift", "Page", "Down", "Softmax", "exp", "tanh"}


def english_words(page) -> list[str]:
    """Return the English words of the controls, the panel and the texts for screen readers."""
    texts = [page.locator(".regard").inner_text(), page.locator("canvas").get_attribute("aria-label") or ""]
    return sorted(set(re.findall(r"[A-Za-z]{3,}", " ".join(texts))) - NAMES)


def test_a_chinese_page_has_chinese_buttons_and_texts_in_every_view(opened, tmp_path):
    words = [["猫", "坐", "在", "垫", "子", "上", "。"]]
    records = [replace(each, name="", query_tokens=words, key_tokens=None) for each in causal_records()]
    regard.viewer.save_html(records, tmp_path / "zh.html", language="zh")
    watched = opened((tmp_path / "zh.html").as_uri())
    page = watched.page
    assert page.title() == "注意力 · Regard"
    assert tabs(page) == ["模型", "热图", "连线", "文本", "步骤"]
    for view in ("grid", "heat", "flow", "text", "steps"):
        page.locator(f"[role=tab][data-view={view}]").click()
        watched.settle()
        assert english_words(page) == [], view
    page.get_by_role("button", name="键盘快捷键").click()
    assert "方向键" in page.locator("dialog").inner_text()
    page.get_by_role("button", name="关闭").click()
    page.locator("[role=tab][data-view=heat]").click()
    watched.settle()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="SVG").click()
    drawn = texts_of(Path(waiting.value.path()).read_bytes())
    assert {"键 →", "← 查询", "被掩码隐藏"} <= set(drawn)


def test_an_english_page_stays_english(opened, small):
    watched = opened(small)
    assert tabs(watched.page) == ["Model", "Heat map", "Flow", "Text", "Steps"]
    assert watched.page.locator(".regard").get_attribute("lang") == "en"
    watched.page.locator("[role=tab][data-view=heat]").click()
    watched.settle()
    assert "keys →" in texts_of(saved(watched, "SVG"))
    assert not CHINESE.search(watched.page.locator("body").inner_text())


def test_a_picture_is_described_in_chinese(opened, tmp_path):
    image = np.full((30, 40, 3), 0.5)
    regard.viewer.save_html([pictured(name="")], tmp_path / "p.html", images=[image], language="zh")
    page = opened((tmp_path / "p.html").as_uri() + "#view=image&row=0&col=6").page
    assert tabs(page)[-1] == "图片"
    assert page.locator(".readout").inner_text().startswith("分类词元 → 第 1 行第 1 列的图块")
    assert english_words(page) == []


def test_the_page_of_the_server_is_in_chinese(opened):
    with served(causal_records(), language="zh") as address:
        watched = opened(address + "#view=heat", own=(address,))
        watched.page.wait_for_timeout(800)
        assert tabs(watched.page)[1] == "热图"
        assert watched.page.locator("footer").inner_text().startswith("服务器以完整精度计算权重。")
        watched.page.close()


def test_the_viewers_of_an_article_have_its_language(opened, tmp_path):
    path = tmp_path / "article.html"
    path.write_text(article("两个", [View(causal_records())], language="zh-CN"), encoding="utf-8")
    assert "<noscript>此视图需要 JavaScript" in path.read_text(encoding="utf-8")
    page = opened(path.as_uri()).page
    assert tabs(page)[1] == "热图"
    assert page.locator(".regard h1").inner_text() == "注意力"


def test_two_widgets_of_a_notebook_have_their_own_languages(browser):
    context = browser.new_context(viewport={"width": 1000, "height": 1400})
    watched = Watched(context)
    watched.page.goto("about:blank")
    put_widget(watched.page, causal_records(), height=600)
    put_widget(watched.page, causal_records(), height=600, language="zh")
    watched.settle()
    hosts = watched.page.locator(".regard")
    assert [hosts.nth(n).get_attribute("lang") for n in (0, 1)] == ["en", "zh-CN"]
    hosts.nth(0).locator("[role=tab][data-view=flow]").click()
    hosts.nth(1).locator("[role=tab][data-view=flow]").click()
    watched.settle()
    hints = [hosts.nth(n).locator(".hint").inner_text() for n in (0, 1)]
    assert hints[0].startswith("Point at a token")
    assert hints[1].startswith("指向一个词元")
    assert watched.troubles == []
    context.close()
