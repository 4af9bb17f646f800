"""Tests of the viewer's own files, their types, how they are joined, and their colours, labels and URLs."""

import json
import re
import subprocess

import numpy as np
import pytest

from regard.viewer import assets
from regard.viewer.tiles import HIDDEN
from support.viewer_records import READ, STATIC, needs, run_javascript

FILES = sorted(path.stem for path in STATIC.glob("*.js"))


def test_the_javascript_passes_the_type_checker(tmp_path):
    config = {
        "compilerOptions": {
            "allowJs": True, "checkJs": True, "noEmit": True, "strict": True, "noUnusedLocals": True, "types": [],
            "target": "ES2022", "module": "ES2022", "lib": ["ES2023", "DOM", "DOM.Iterable"],
        },
        "include": [str(STATIC / "*.js"), str(STATIC.parents[1] / "plots" / "static" / "*.js")],
    }  # fmt: skip
    (tmp_path / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    tsc = needs("tsc")  # npm install --global typescript
    result = subprocess.run([tsc, "-p", str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout


def test_every_script_is_type_checked_and_listed():
    for name in FILES:
        assert (STATIC / f"{name}.js").read_text(encoding="utf-8").startswith("// @ts-check\n"), name
    assert set(FILES) == {*assets.MODULES, "article", "page", "widget", "types"}


def test_names_are_unique_since_all_files_share_one_scope():
    seen: dict[str, str] = {}
    pattern = re.compile(r"^(?:export )?(?:async )?(?:function\*?|class|const|let) (\w+)", re.MULTILINE)
    for name in FILES:
        if name in ("article", "page", "widget"):
            continue  # one of them ends a script, never two
        for found in pattern.findall((STATIC / f"{name}.js").read_text(encoding="utf-8")):
            assert found not in seen, f"{found} is in {seen.get(found)}.js and in {name}.js"
            seen[found] = name


@pytest.mark.parametrize("script", [assets.page_script, assets.article_script, assets.widget_script])
def test_the_joined_module_parses_and_imports_nothing(script, tmp_path):
    text = script()
    assert not re.search(r"^import\b", text, re.MULTILINE)
    assert len(re.findall(r"^export\b", text, re.MULTILINE)) == (script is assets.widget_script)
    assert "</script" not in text
    assert "<!--" not in text
    (tmp_path / "joined.mjs").write_text(text, encoding="utf-8")
    result = subprocess.run(
        [needs("node"), "--check", str(tmp_path / "joined.mjs")], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr


def test_the_style_cannot_leave_its_element_and_fetches_nothing():
    assert "<" not in assets.style()
    assert "url(" not in assets.style()
    assert "@import" not in assets.style()


# ---- colours


def oklab(rgb: np.ndarray) -> np.ndarray:
    """Bytes of sRGB as OKLab, by the published matrices."""
    x = rgb / 255
    linear = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    to_lms = np.array([
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ])  # fmt: skip
    to_lab = np.array([
        [0.2104542553, 0.793617785, -0.0040720468],
        [1.9779984951, -2.428592205, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.808675766],
    ])  # fmt: skip
    return np.cbrt(linear @ to_lms.T) @ to_lab.T


@pytest.mark.parametrize(
    ("palette", "dark", "rising"), [("bright", False, 1), ("ink", False, -1), ("ink", True, 1)]
)
def test_equal_steps_of_weight_are_equal_steps_of_colour(palette, dark, rising):
    source = READ + (
        'import { colorTable } from "STATIC/color.js"; console.log(JSON.stringify([...colorTable(...given)]));'
    )
    lab = oklab(np.array(run_javascript(source, [palette, dark])).reshape(256, 3).astype(float))
    light = lab[:, 0]
    assert (rising * np.diff(light[::8]) > 0.005).all(), "lightness goes one way, so it reads in grey too"
    assert np.abs(np.diff(light[::8]) - np.diff(light[::8]).mean()).max() < 0.012, "and evenly"
    steps = np.linalg.norm(np.diff(lab[::8], axis=0), axis=1)
    assert steps.max() / steps.min() < 2.6, "no step of colour stands out"


def test_weights_are_placed_on_the_colour_scale():
    source = READ + (
        'import { place } from "STATIC/color.js"; console.log(JSON.stringify(given.map((x) => place(...x))));'
    )
    cases = [
        [0, 1, "linear"], [0.25, 0.5, "linear"], [2, 1, "linear"], [-1, 1, "linear"], [0.25, 1, "root"],
        [0.01, 1, "log"], [1e-9, 1, "log"], [0.5, 0, "linear"],
    ]  # fmt: skip
    assert run_javascript(source, cases) == pytest.approx([0, 0.5, 1, 0, 0.5, 0.5, 0, 0])


# ---- words and numbers


def test_invisible_characters_of_labels_are_shown():
    source = READ + (
        'import { visible } from "STATIC/text.js"; console.log(JSON.stringify(given.map(visible)));'
    )
    cases = {
        " ": "␣", "": "∅", "\n": "⏎", " a b": "␣a b", "猫": "猫", "Ġthe": "Ġthe", "a\0b": "a␀b",
        "\u202eabc": "⟨202E⟩abc",
        "a\u2028": "a⟨2028⟩", "\u200b": "⟨200B⟩", "😀": "😀", "\x1b[1m": "␛[1m", "\u2066x\u2069": "⟨2066⟩x⟨2069⟩",
        "\ufffe\uffff": "⟨FFFE⟩⟨FFFF⟩",
    }  # fmt: skip
    assert run_javascript(source, list(cases)) == list(cases.values())
    lone = run_javascript(source, ["\ud800", "a\udfff"])
    assert lone == ["⟨D800⟩", "a⟨DFFF⟩"]


def test_printed_numbers_are_short_and_exact():
    source = READ + (
        'import { weightText, percent, numberText, shortWeight } from "STATIC/text.js";'
        "console.log(JSON.stringify(given.map((w) => [weightText(w), percent(w), numberText(w), shortWeight(w)])));"
    )
    found = run_javascript(source, [0.5, 0.01234, 1e-5, 0, 1, HIDDEN, -0.25])
    assert found[0] == ["0.500", "50.0 %", "0.500", ".50"]
    assert found[1] == ["0.0123", "1.23 %", "0.012", ".01"]
    assert found[2] == ["1.0e−5", "<0.01 %", "1.00e−5", "·"]
    assert found[3] == ["0", "0.00 %", "0.000", "0"]
    assert found[4] == ["1.000", "100.0 %", "1.000", "1"]
    assert found[5][0] == "hidden"
    assert found[6] == ["−0.250", "−25.0 %", "−0.250", "−.25"]


# ---- the state in the address

DOCUMENT = {
    "format": "regard.viewer/1", "title": "t", "labels": [], "pictures": [],
    "records": [
        {"kind": "self", "shape": [2, 3, 5, 7], "keyGrid": None, "pictures": None},
        {"kind": "self", "shape": [1, 4, 5, 7], "keyGrid": None, "pictures": None},
    ],
    "layouts": [],
}  # fmt: skip


def states(*hashes: str) -> list[dict]:
    source = READ + (
        'import { parseState, formatState } from "STATIC/state.js";'
        "const { doc, hashes } = given;"
        "console.log(JSON.stringify(hashes.map((h) => { const s = parseState(doc, h);"
        "return { ...s, line: formatState(doc, s) }; })));"
    )
    return run_javascript(source, {"doc": DOCUMENT, "hashes": list(hashes)})


def test_the_address_stores_what_is_shown():
    (line,) = [one["line"] for one in states("#view=flow&record=1&head=3&row=4&col=6&heads=0.2&min=0.25")]
    (again,) = states(line)
    assert again["line"] == line
    assert (again["view"], again["record"], again["head"], again["heads"]) == ("flow", 1, 3, [0, 2])
    (plain,) = states("")
    assert plain["line"] == "#"


def test_heads_and_pins_that_are_not_there_are_left_out():
    found = states(
        "#view=flow&heads=7.8", "#heads=1.8", "#pin=q4", "#pin=q5", "#pin=k6", "#pin=k7", "#pin=x1", "#side=y"
    )
    assert [one["heads"] for one in found[:2]] == [None, [1]]
    assert [one["pin"] for one in found[2:]] == ["q4", "", "k6", "", "", ""]
    assert found[-1]["side"] == "query"


def test_a_view_that_is_not_there_is_not_opened():
    (found,) = states("#view=image")
    assert found["view"] == "grid"


def test_numbers_of_the_steps_have_at_most_six_characters():
    source = READ + (
        'import { cellNumber } from "STATIC/text.js"; console.log(JSON.stringify(given.map(cellNumber)));'
    )
    cases = {
        0.125: "0.125",
        -9.99961: "−10.00",
        12.3456: "12.35",
        -123.456: "−123.5",
        9999.4: "9999",
        -123456: "−1e5",
        1e-5: "0.000",
    }
    assert run_javascript(source, list(cases)) == list(cases.values())


def test_an_address_cannot_point_outside():
    for wild in states(
        "#record=-1&head=99&row=1e99&col=-4&batch=7&zoom=1e9&x=-1&y=1e9&min=5&scroll=-1&opacity=9",
        "#record=NaN&head=Infinity&view=<script>&scale=constructor&theme=__proto__&heads=7.8.9",
        "#" + "a=1&" * 10_000,
    ):
        b, h, q, k = DOCUMENT["records"][wild["record"]]["shape"]
        assert 0 <= wild["batch"] < b
        assert -1 <= wild["head"] < h
        assert 0 <= wild["row"] < q
        assert 0 <= wild["col"] < k
        assert 0 <= wild["zoom"] <= 200
        assert wild["min"] == -1 or 0 <= wild["min"] <= 1
        assert wild["view"] in ("grid", "heat", "flow", "text", "steps", "image")
        assert wild["theme"] == "auto"
